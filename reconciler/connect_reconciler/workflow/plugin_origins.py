"""Finds out where the plugins of a list come from, as far as this machine knows."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final, TypeAlias

from connect_runtime.engine.plugin_path import entries, plugin_files
from connect_runtime.plugins import registry
from connect_runtime.plugins.archives import JAR
from connect_runtime.rest.plugin_resources import OTHER_KINDS
from connect_runtime.rest.wire import UNDEFINED_VERSION
from connect_specs.desired import Project
from connect_specs.plugins_lock import load_locked_plugins

# A class, and its version if it reports one
Listed: TypeAlias = tuple[str, str | None]

_OURS: Final = "connect_runtime"


def origins_of(project: Project, plugins: Collection[Listed]) -> Mapping[Listed, str]:
    """Returns where plugins come from: `built in`, a Python package, what a Java plugin was
    installed from, or its folder or jar on plugin.path. One that is not here has none."""
    python = dict(_python_origins()) if project.uses_runtime else {}
    origins = {plugin: python[plugin] for plugin in plugins if plugin in python}
    for jar, origin in _jars(project):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
            files = frozenset(archive.namelist())
            for plugin in plugins:
                if f"{plugin[0].replace('.', '/')}.class" in files:
                    origins.setdefault(plugin, origin)
    return origins


def _python_origins() -> Iterator[tuple[Listed, str]]:
    packages = packages_distributions()
    plugins = [*registry.connectors()]
    for kind in OTHER_KINDS:
        plugins += registry.plugins(kind)
    for plugin in plugins:
        if not plugin.java:
            package = plugin.cls.__module__.partition(".")[0]
            names = packages.get(package, [package])
            version = None if plugin.version == UNDEFINED_VERSION else plugin.version
            yield (plugin.class_name, version), "built in" if package == _OURS else names[0]


def _jars(project: Project) -> Iterator[tuple[Path, str]]:
    """Yields the jars of plugins, those that were installed first, each with its plugin's
    origin."""
    for plugin in load_locked_plugins(project.folder):
        for jar in sorted((project.plugins / plugin.name).rglob(f"*{JAR}")):
            yield jar, plugin.origins[0].source
    folders = entries(project.worker)
    for file in plugin_files(project.worker):
        entry = next((folder for folder in folders if folder in file.parents), None)
        yield file, str(file if entry is None else entry / file.relative_to(entry).parts[0])
