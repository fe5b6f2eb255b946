"""Which modules may be imported because a config names a class in them?

Importing runs code. So only those of built-ins may be, those of registered entry points, and those
that the worker property `plugin.modules` lists, each with all that is below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Final

from connect_runtime.api import ConnectorError

PLUGIN_MODULES: Final = "plugin.modules"
# Under which third parties register their classes
ENTRY_POINTS: Final = (
    "connect.connectors",
    "connect.converters",
    "connect.header_converters",
    "connect.transforms",
    "connect.predicates",
)

# Grows with `allow_modules`
_allowed: frozenset[str] = frozenset({"connect_runtime.connectors", "connect_runtime.data"})


class UnlistedModule(ConnectorError):
    """The class is in a module that `plugin.modules` does not list."""


def allow_modules(worker: Mapping[str, str]) -> None:
    """Lets configs name classes of the modules that the worker's `plugin.modules` lists, in this
    process and from now on. The list is the operator's: never pass a value from a request."""
    global _allowed
    _allowed |= set(listed_modules(worker.get(PLUGIN_MODULES, "")))


def listed_modules(text: str) -> list[str]:
    """Returns the entries of a `plugin.modules`."""
    return [each for each in (part.strip() for part in text.split(",")) if each]


def is_module_name(name: str) -> bool:
    """Whether a module can be listed and imported. Importing a `__main__` would run it."""
    return all(part.isidentifier() and not part.startswith("__") for part in name.split("."))


def is_allowed(module: str) -> bool:
    """Whether the module may be imported."""
    return is_module_name(module) and (_covers(_allowed, module) or _covers(_registered(), module))


def unlisted_module(name: str) -> str | None:
    """Returns the module of a class name, if it is on this machine, or written as Python's, and may
    not be imported; None for all other names. Imports nothing."""
    module = split_name(name)[0]
    if not is_module_name(module) or is_allowed(module):
        return None
    return module if ":" in name or _is_here(module) else None


def refuse_unlisted(name: str) -> None:
    """Raises UnlistedModule for the name of a class that may not be imported."""
    text = unlisted_text(name)
    if text:
        raise UnlistedModule(text)


def unlisted_text(name: str) -> str:
    """Returns why a class may not be imported; an empty text if it may."""
    module = unlisted_module(name)
    if module is None:
        return ""
    return (
        f"{name} is in a module that this worker does not list, so it is not imported. To allow it,"
        f" add {PLUGIN_MODULES}={module} to the worker properties"
    )


def split_name(path: str) -> tuple[str, str]:
    """Returns the module and the name of `package.module:Class` or `package.module.Class`."""
    module, _, name = path.rpartition(":" if ":" in path else ".")
    return module, name


def _is_here(module: str) -> bool:
    """Whether its first part is a package, or is itself the module. Python's `io` is no package: a
    class of `io.debezium` is Java's."""
    top_level, _, below = module.partition(".")
    try:
        spec = find_spec(top_level)
    except ValueError:  # loaded by a custom loader
        return True
    return spec is not None and not (below and spec.submodule_search_locations is None)


def _covers(packages: Iterable[str], module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


@cache
def _registered() -> frozenset[str]:
    """Returns the packages of entry points: a connector's task may be in another module."""
    found = (entry for group in ENTRY_POINTS for entry in entry_points(group=group))
    return frozenset(map(_package_of, found))


def _package_of(entry: EntryPoint) -> str:
    package, _, module = entry.module.rpartition(".")
    return package or module
