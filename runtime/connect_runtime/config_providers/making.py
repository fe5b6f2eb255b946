"""Creates the providers that a worker declares.

Apache's providers are found by class name, also without package and without `ConfigProvider`; third
parties register under the entry point group `connect.config_providers`. A worker's properties never
import a module that is not registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final

from connect_runtime.api import ConfigError, ConfigProvider
from connect_runtime.config_providers.built_in import BUILT_IN
from connect_runtime.config_providers.declared import Declared

GROUP: Final = "connect.config_providers"
_SUFFIX: Final = "ConfigProvider"


def make(each: Declared, params: Mapping[str, str]) -> ConfigProvider:
    """Creates the provider, ready for use; `params` are its own, resolved. Raises ConfigError, and
    anything that third-party code raises."""
    provider = _class(each)()
    provider.configure(params)
    return provider


def _class(each: Declared) -> Callable[[], ConfigProvider]:
    if not each.class_name:
        raise ConfigError(
            f'Missing required configuration "{each.class_key}" which has no default value.'
        )
    for name, built_in in BUILT_IN.items():
        simple = built_in.__name__
        if each.class_name in (name, simple, simple.removesuffix(_SUFFIX)):
            return built_in
    known = list(BUILT_IN)
    for entry in entry_points(group=GROUP):
        known.append(entry.name)
        dotted = entry.value.replace(":", ".")
        if each.class_name.replace(":", ".") in (entry.name, dotted):
            found = entry.load()
            if isinstance(found, type) and issubclass(found, ConfigProvider):
                return found
            raise ConfigError(f"{each.class_name} is not a ConfigProvider")
    raise ConfigError.invalid(
        each.class_key,
        each.class_name,
        f"Class {each.class_name} could not be found. Known are: {', '.join(known)}",
    )
