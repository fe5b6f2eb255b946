"""Defines config providers, which resolve `${provider:[path:]key}` in configs (KIP-297)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The values of the keys that exist. `ttl_ms`: how long they are valid, in milliseconds; None:
    until the connector restarts."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Provides values, such as secrets, for configs.

    Register a class under the entry point group `connect.config_providers`; a worker names the
    entry point, or the class, in `config.providers.<alias>.class`. It must be installed wherever
    connectors and tasks run. Several threads may call `get` at once. Neither logs nor error texts
    may hold values.
    """

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027
        """Is called once, before everything else, with the worker's
        `config.providers.<alias>.param.*`. Raises ConfigError for invalid parameters."""

    @abstractmethod
    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        """Returns the values of those `keys` that exist at `path`, which is empty if a reference
        names none. Raises ConfigError if the path cannot be read."""

    def close(self) -> None:  # noqa: B027
        """Is called once, after the last `get`."""
