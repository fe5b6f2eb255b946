"""Packs this Python environment for `spark.archives`, so that nodes of a cluster need no packages.

The archive is a virtual environment: `bin/python` links to the node's Python, which finds the
packages beside it wherever Spark unpacks it. Spark brings PySpark itself. Java plugins come along,
with the engine that runs them.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions, entry_points
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from connect_runtime.engine.engine_jar import class_path
from connect_runtime.engine.plugin_path import every_file, has_java_plugins
from connect_runtime.engine.sent_files import JARS, sent_path
from connect_runtime.plugins.modules import ENTRY_POINTS
from connect_specs.diagnostics import Diagnostic, Failed, Invalid

# The folder in which `spark.archives` unpacks it, where an executor runs
UNPACKED: Final = "environment"
_OURS: Final = ("connect-reconciler", frozenset({"runtime"}))
# Each node has them with its Spark
_OF_SPARK: Final = frozenset({"pyspark", "py4j"})
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive, the packages in it, and what each node must have."""

    file: Path
    packages: Sequence[str]
    needs: Sequence[str]

    @property
    def properties(self) -> Mapping[str, str]:
        """Returns the worker properties that use the archive."""
        return {
            "spark.archives": f"{self.file}#{UNPACKED}",
            "spark.pyspark.python": f"./{UNPACKED}/bin/python",
        }


def pack(file: Path, python: str, further: Iterable[str], worker: Mapping[str, str] = {}) -> Packed:
    """Writes the archive. It holds connect, all packages that register plugins, `further` packages
    or modules by name, and what they require; of a worker with Java plugins their files, and the
    engine. `python` is the path of Python on the nodes.

    Raises Invalid for a name that is not installed, Failed for a package or an engine that cannot
    be built, ArtifactsError if the engine's jars cannot be fetched, and OSError.
    """
    installed = _installed()
    roots = {_OURS[0]: _OURS[1], **dict.fromkeys(_plugin_packages(installed), frozenset())}
    modules = []
    for name in further:
        if _normal(name) in installed:
            roots[_normal(name)] = frozenset()
        else:
            modules.append(_module_path(name))
    packages = closure(installed, roots)
    partial = file.with_name(f"{file.name}.partial")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=6) as archive:
            _add_python(archive, python)
            for name in packages:
                _add_package(archive, installed[name])
            for path in modules:
                archive.add(path, f"{_site()}/{path.name}", filter=_no_caches)
            _add_java(archive, worker)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return Packed(file, packages, _needs(python, installed))


def closure(
    installed: Mapping[str, Distribution], roots: Mapping[str, Collection[str]]
) -> list[str]:
    """Returns the names of installed packages that `roots`, names with their extras, require, and
    the roots themselves, sorted. Markers other than extras are left to who installed them: what is
    installed counts."""
    visited: set[tuple[str, str]] = set()
    todo = [(name, extra) for name, extras in roots.items() for extra in ("", *extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in visited or name not in installed or name in _OF_SPARK:
            continue
        visited.add((name, extra))
        for text in installed[name].requires or ():
            required, extras, _, marker = _parts(text)
            if set(_EXTRA.findall(marker)) in (set(), {extra}):
                todo += [(required, required_extra) for required_extra in ("", *extras)]
    return sorted({name for name, _ in visited})


def _parts(requirement: str) -> tuple[str, list[str], str, str]:
    match = _REQUIREMENT.match(requirement)
    assert match is not None, requirement
    name, extras, version, marker = match.groups(default="")
    return _normal(name), [extra.strip() for extra in extras.split(",") if extra], version, marker


def _installed() -> dict[str, Distribution]:
    """Returns installed packages by name; of two with one name, the one that is imported."""
    packages: dict[str, Distribution] = {}
    for package in distributions():
        packages.setdefault(_normal(package.name), package)
    return packages


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _plugin_packages(installed: Mapping[str, Distribution]) -> Iterator[str]:
    for group in ENTRY_POINTS:
        for entry in entry_points(group=group):
            if entry.dist is not None and _normal(entry.dist.name) in installed:
                yield _normal(entry.dist.name)


def _module_path(name: str) -> Path:
    """Returns the file or folder of a module that belongs to no package."""
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        problem = f"{name} is neither an installed package nor a module that can be imported"
        raise Invalid(Diagnostic("package.unknown", problem, hint="install it, or set PYTHONPATH"))
    origin = Path(spec.origin)
    return origin.parent if spec.submodule_search_locations else origin


def _site() -> str:
    major, minor = sys.version_info[:2]
    return f"lib/python{major}.{minor}/site-packages"


def _add_python(archive: tarfile.TarFile, python: str) -> None:
    home = Path(python).parent
    version = platform.python_version()
    text = f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n"
    config = tarfile.TarInfo("pyvenv.cfg")
    config.size = len(text.encode())
    archive.addfile(config, BytesIO(text.encode()))
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, python
        archive.addfile(link)


def _add_package(archive: tarfile.TarFile, package: Distribution) -> None:
    """Adds what belongs to the package but its scripts, which name this machine's Python."""
    source = _editable_source(package)
    if source is not None:
        with tempfile.TemporaryDirectory() as folder:
            _install(source, Path(folder))
            for path in sorted(Path(folder).iterdir()):
                if path.name != "bin":
                    archive.add(path, f"{_site()}/{path.name}", filter=_no_caches)
        return
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        if ".." not in file.parts and path.exists():
            archive.add(path, f"{_site()}/{file}")


def _add_java(archive: tarfile.TarFile, worker: Mapping[str, str]) -> None:
    """Adds Java plugins, each file in the place of a link, and what runs them."""
    if not has_java_plugins(worker):
        return
    archive.dereference = True
    for jar in class_path():
        archive.add(jar, f"{JARS}/{jar.name}")
    for path, file in {sent_path(file): file for file in every_file(worker)}.items():
        archive.add(file, path)


def _editable_source(package: Distribution) -> Path | None:
    """Returns the folder that an editable package is imported from."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _install(source: Path, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    words = ["--no-deps", "--no-build-isolation", "--target", str(target), str(source)]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        problem = f"the editable package in {source} could not be built"
        hint = "install it without --editable, or install its build requirements here"
        raise Failed(Diagnostic("package.build", problem, why=reason[0], hint=hint))


def _no_caches(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if Path(info.name).name == "__pycache__" else info


def _needs(python: str, installed: Mapping[str, Distribution]) -> list[str]:
    spark = installed["pyspark"].version if "pyspark" in installed else "4.3"
    major, minor = sys.version_info[:2]
    library, version = platform.libc_ver()
    c_library = f" with {library} {version} or later" if library else ""
    return [
        f"Spark {spark} with Java 17 or later",
        f"Python {major}.{minor} at {python} (another path: --python)",
        f"{platform.system()} on {platform.machine()}{c_library}",
        "a way to the runtime (spark.driver.host) and to Kafka",
    ]
