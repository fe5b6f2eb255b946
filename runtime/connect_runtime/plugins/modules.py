"""The modules of plugins: those that may be imported because a config names a class in them, and
the loading of those that packages register.

Importing runs code. So only those of built-ins may be imported, those of registered entry points,
and those that the worker property `plugin.modules` lists, each with all that is below it. The code
may never return, so one entry point that hangs holds up no other one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Final, Generic, TypeVar

from connect_runtime.api import ConnectorError
from connect_runtime.waiting import TakesTooLong, within

_log = logging.getLogger(__name__)

T = TypeVar("T")

PLUGIN_MODULES: Final = "plugin.modules"
# Under which third parties register their classes
ENTRY_POINTS: Final = (
    "connect.connectors",
    "connect.converters",
    "connect.header_converters",
    "connect.transforms",
    "connect.predicates",
)

# Patience with one entry point, and with all. Large packages take seconds on a busy machine.
_EACH_S: Final = 10.0
_ALL_S: Final = 30.0

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
    return [name.strip() for name in text.split(",") if name.strip()]


def is_module_name(name: str) -> bool:
    """Returns True if a module can be listed and imported. Importing a `__main__` would run it."""
    return all(word.isidentifier() and not word.startswith("__") for word in name.split("."))


def is_allowed(module: str) -> bool:
    """Returns True if the module may be imported."""
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
    """Returns True if its first part is a package, or is itself the module. Python's `io` is no
    package: a class of `io.debezium` is Java's."""
    top_level, _, submodule = module.partition(".")
    try:
        spec = find_spec(top_level)
    except ValueError:  # loaded by a custom loader
        return True
    return spec is not None and not (submodule and spec.submodule_search_locations is None)


def _covers(packages: Iterable[str], module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def _registered() -> frozenset[str]:
    """Returns the packages of entry points: a connector's task may be in another module."""
    modules = (entry.module for group in ENTRY_POINTS for entry in entry_points(group=group))
    return frozenset(module.rpartition(".")[0] or module for module in modules)


class EntryPointLoading(Generic[T]):
    """Calls `load` once for each entry point, on threads. Used from any thread."""

    def __init__(self, entries: Iterable[EntryPoint], load: Callable[[EntryPoint], T]) -> None:
        self._load = load
        self._plugins: list[T] = []
        self._waits_until = time.monotonic() + _ALL_S
        self._tried = threading.Event()
        entries = tuple(entries)
        if not entries:
            self._tried.set()
            return
        threading.Thread(
            target=self._try_all, args=(entries,), name="load-plugins", daemon=True
        ).start()

    def loaded(self) -> list[T]:
        """Returns the plugins that are loaded. Waits for the others, but no longer for one that
        hangs: it is there once it has loaded."""
        self._tried.wait(max(0.0, self._waits_until - time.monotonic()))
        return list(self._plugins)

    def _try_all(self, entries: Iterable[EntryPoint]) -> None:
        try:
            for entry in entries:
                # One after the other: of modules that import each other, two threads get halves.
                try:
                    within(_EACH_S, partial(self._try, entry))
                except TakesTooLong:
                    text = "The plugin %s (%s) has not loaded in %.0f s: it is left out until then"
                    _log.warning(text, entry.name, entry.value, _EACH_S)
                except RuntimeError:  # the system has no more threads
                    self._try(entry)
        finally:
            self._tried.set()

    def _try(self, entry: EntryPoint) -> None:
        try:
            self._plugins.append(self._load(entry))
        except BaseException as error:  # a plugin may also call sys.exit
            _log.warning("The plugin %s (%s) cannot be used: %s", entry.name, entry.value, error)


_lock: Final = threading.Lock()
_loading: Final[dict[str, EntryPointLoading[Any]]] = {}


def loaded(group: str, load: Callable[[EntryPoint], T]) -> list[T]:
    """Returns the plugins of an entry point group that have loaded; `load` is called once for
    each."""
    with _lock:
        if group not in _loading:
            _loading[group] = EntryPointLoading(entry_points(group=group), load)
    return _loading[group].loaded()
