"""Where values come from that configs refer to as `${provider:[path:]key}` (KIP-297)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The values of the keys that exist. `ttl_ms`: how long they are good for, in milliseconds;
    None: until somebody restarts the connector."""

    values: Mapping[str, str] = field(repr=False)
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Gives values, such as secrets, to configs.

    Register a class under the entry point group `connect.config_providers`; a worker names the
    entry point, or the class, in `config.providers.<alias>.class`. It has to be installed wherever
    connectors and tasks run. Several threads may call `get` at once. Neither logs nor error texts
    may hold values.
    """

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027
        """Called once, before all else, with the worker's `config.providers.<alias>.param.*`.
        Raises ConfigError for what cannot be used."""

    @abstractmethod
    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        """The values of those of `keys` that exist at `path`, which is empty if a reference names
        none. Raises ConfigError if the path cannot be read."""

    def close(self) -> None:  # noqa: B027
        """Called once, after the last `get`."""
