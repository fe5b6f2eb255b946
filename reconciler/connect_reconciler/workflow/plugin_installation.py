"""Installs the Java plugins of a project, as plugins.lock.json names them.

`.connect/plugins` is on the plugin.path of the project's runtime. Its entries are links to folders
of `.connect/plugin-store`, which are complete and named after the checksums of their content. A
link is replaced in one step, so an interrupted install leaves the earlier plugin or the new one.
The lock is written before links: the next install completes what it names.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from connect_reconciler.workflow.plugin_artifacts import (
    artifact_file,
    file_name,
    get_missing,
    origin_of,
    plugin_name,
    recorded_source,
    stem,
    unwritable,
)
from connect_runtime.files import make_private_folder, replace_file
from connect_runtime.maven import parse_coordinate
from connect_runtime.plugins.archives import JAR, unpack
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Failed, Invalid
from connect_specs.plugins_lock import (
    PLUGINS_LOCK,
    LockedPlugin,
    is_plugin_name,
    load_lock,
    load_locked_plugins,
    lock_text,
)

_FILES: Final = ".files.json"
_DIGITS: Final = 24


@dataclass(frozen=True, slots=True)
class PluginChanges:
    """Names of plugins that an install put into the plugin folder, and that it took out."""

    installed: tuple[str, ...]
    removed: tuple[str, ...]


def install(
    project: Project,
    source: str,
    folder: Path,
    into: str | None = None,
    *,
    in_use: bool,
    say: Callable[[str], None] = lambda text: None,
) -> LockedPlugin:
    """Installs a plugin in place of one of the same name, or adds a jar to the plugin `into`, and
    records it in the lock. `source` is as the user wrote it in `folder`; `in_use`: a runtime is up,
    so replaced files stay; `say` is called with progress. Raises Invalid, Unreachable, Failed;
    nothing is changed then."""
    with _store(project, say) as store:
        locked = {plugin.name: plugin for plugin in load_locked_plugins(project.folder)}
        plugin = _with_origin(locked, project, source, folder, into)
        locked[plugin.name] = plugin
        built = _built(plugin, project, store)
        _check_free(project.plugins / plugin.name)
        _write_lock(project, locked.values())
        _link(project.plugins / plugin.name, built)
        _remove_unused(project, store, in_use=in_use)
    return plugin


def install_locked(
    project: Project, *, in_use: bool, say: Callable[[str], None] = lambda text: None
) -> PluginChanges:
    """Installs what the lock names, and removes what it no longer names; other folders that are
    beside them stay. `in_use`: a runtime is up, so replaced files stay; `say` is called with
    progress.

    Raises Failed for a file that is not as in the lock, Invalid, Unreachable; nothing is changed
    then.
    """
    locked = load_locked_plugins(project.folder)
    if not locked and not project.plugins.is_dir():
        return PluginChanges((), ())
    with _store(project, say) as store:
        absent = [plugin for plugin in locked if not _is_installed(plugin, project, store)]
        for plugin in absent:
            get_missing(plugin, project.folder)
            _check_free(project.plugins / plugin.name)
        built = [(plugin.name, _built(plugin, project, store)) for plugin in absent]
        for name, target in built:
            _link(project.plugins / name, target)
        removed = _unlink_stale(project, store, {plugin.name for plugin in locked})
        _remove_unused(project, store, in_use=in_use)
    return PluginChanges(tuple(name for name, _ in built), removed)


def _with_origin(
    locked: Mapping[str, LockedPlugin],
    project: Project,
    source: str,
    folder: Path,
    into: str | None,
) -> LockedPlugin:
    recorded = recorded_source(source, folder, project.folder)
    name = plugin_name(recorded) if into is None else into
    plugin = locked.get(name)
    if into is not None and plugin is None:
        names = ", ".join(sorted(locked)) or "none"
        problem, hint = f"no plugin {into!r} is installed", f"installed plugins: {names}"
        raise Invalid(Diagnostic("plugins.into", problem, hint=hint))
    if into is None or plugin is None:
        origin = origin_of(source, folder, project.folder)
        if not is_plugin_name(name):
            problem, hint = f"{name!r} cannot be the name of a folder", "rename the file"
            raise Invalid(Diagnostic("plugins.source", problem, hint=hint))
        return LockedPlugin(name, (origin, *(plugin.origins[1:] if plugin else ())))
    replaced = [entry for entry in plugin.origins if _module(entry.source) == _module(recorded)]
    staying = [entry for entry in plugin.origins if entry not in replaced]
    present = [artifact.origin for entry in staying for artifact in entry.artifacts]
    origin = origin_of(source, folder, project.folder, present)
    if not replaced:
        return replace(plugin, origins=(*plugin.origins, origin))
    origins = tuple(origin if entry in replaced else entry for entry in plugin.origins)
    return replace(plugin, origins=origins)


def _module(source: str) -> object:
    """Returns what all versions of a source have in common."""
    coordinate = parse_coordinate(source)
    return (*coordinate.module, coordinate.classifier) if coordinate else plugin_name(source)


# --- the folders ---


@contextmanager
def _store(project: Project, say: Callable[[str], None]) -> Iterator[Path]:
    """Locks the store for the context; an install that has it is waited for. Raises Failed if it
    cannot be written."""
    store = Path(os.path.realpath(project.data / "plugin-store"))
    try:
        make_private_folder(store)
        project.plugins.mkdir(parents=True, exist_ok=True)
        with (store / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another install of this project's plugins")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield store
    except OSError as error:
        raise unwritable(str(store), error) from error


def _built(plugin: LockedPlugin, project: Project, store: Path) -> Path:
    """Returns the plugin's folder, made of its files if it is not there."""
    folder = store / _digest(plugin)
    if _is_complete(folder):
        return folder
    get_missing(plugin, project.folder)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=store) as parent:
        building = Path(parent, plugin.name)
        building.mkdir()
        for artifact in plugin.artifacts:
            _lay(artifact_file(artifact), file_name(artifact.origin), building)
        if next(building.rglob(f"*{JAR}"), None) is None:
            problem = f"{plugin.origins[0].source} holds no jar"
            raise Invalid(Diagnostic("plugins.archive", problem, hint="name the plugin's archive"))
        replace_file(building / _FILES, json.dumps(_files(building)))
        shutil.rmtree(folder, ignore_errors=True)
        building.replace(folder)
    return folder


def _lay(file: Path, name: str, folder: Path) -> None:
    """Puts an artifact into a plugin's folder; what has the same name there is of another one."""
    while (folder / name).exists() or (folder / stem(name)).exists():
        folder = folder / "more"
    folder.mkdir(exist_ok=True)
    if name.lower().endswith(JAR):
        shutil.copyfile(file, folder / name)
    else:
        unpack(file, folder / stem(name), name)


def _digest(plugin: LockedPlugin) -> str:
    content = [[file_name(artifact.origin), artifact.sha256] for artifact in plugin.artifacts]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:_DIGITS]


def _files(folder: Path) -> dict[str, list[int]]:
    """Returns sizes and times of all files by their paths."""
    files = (Path(root, name) for root, _, names in os.walk(folder) for name in sorted(names))
    return {
        str(file.relative_to(folder)): [(stat := file.stat()).st_size, stat.st_mtime_ns]
        for file in files
        if file.name != _FILES
    }


def _is_complete(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _FILES).read_bytes()) == _files(folder))
    except (OSError, ValueError):
        return False


def _is_installed(plugin: LockedPlugin, project: Project, store: Path) -> bool:
    folder = store / _digest(plugin)
    return _target(project.plugins / plugin.name) == folder and _is_complete(folder)


# --- the links ---


def _target(link: Path) -> Path | None:
    return Path(os.path.realpath(link)) if link.is_symlink() else None


def _check_free(link: Path) -> None:
    """Raises Failed if something that is no link is in its place."""
    if link.exists() and not link.is_symlink():
        problem = f"{link} was not made by connect, so it is not replaced"
        raise Failed(Diagnostic("plugins.in-the-way", problem, hint="move it away"))


def _link(link: Path, folder: Path) -> None:
    """Lets the link lead to the folder, in one step."""
    unfinished = link.with_name(f".{link.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(os.path.relpath(folder, link.parent))
    unfinished.replace(link)


def _unlink_stale(project: Project, store: Path, names: Collection[str]) -> tuple[str, ...]:
    """Removes the links to the store whose plugins the lock does not name; returns their names."""
    stale = [
        link
        for link in sorted(project.plugins.iterdir())
        if link.name not in names and (target := _target(link)) and target.parent == store
    ]
    for link in stale:
        link.unlink()
    return tuple(link.name for link in stale)


def _remove_unused(project: Project, store: Path, *, in_use: bool) -> None:
    """Removes folders of the store that no link leads to: not under a runtime, which reads them."""
    used = {_target(link) for link in project.plugins.iterdir()}
    for folder in store.iterdir():
        is_unfinished = folder.name.startswith(".building-")
        if folder.is_dir() and folder not in used and (is_unfinished or not in_use):
            shutil.rmtree(folder, ignore_errors=True)


def _write_lock(project: Project, plugins: Collection[LockedPlugin]) -> None:
    text = lock_text(load_lock(project.folder), plugins)
    replace_file(project.folder / PLUGINS_LOCK, text)
