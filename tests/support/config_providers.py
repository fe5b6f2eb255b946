"""A third party's config provider, and how tests install it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider

NAME = "test-vault"


class VaultProvider(ConfigProvider):
    """Gives what a test puts into `secrets`, by path and key. `answer` takes its place."""

    secrets: ClassVar[dict[tuple[str, str], str]] = {}
    ttl_ms: ClassVar[int | None] = None
    answer: ClassVar[Callable[[str, frozenset[str]], ConfigData] | None] = None
    asked: ClassVar[list[tuple[str, frozenset[str]]]] = []
    made: ClassVar[int] = 0
    closed: ClassVar[int] = 0

    def configure(self, params: Mapping[str, str]) -> None:
        type(self).made += 1
        if params.get("token") == "refused":
            raise ConfigError("the token 'refused' is not valid")
        self.token = params.get("token")

    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        self.asked.append((path, keys))
        if type(self).answer is not None:
            return type(self).answer(path, keys)
        values = {key: self.secrets[path, key] for key in keys if (path, key) in self.secrets}
        return ConfigData(values, self.ttl_ms)

    def close(self) -> None:
        type(self).closed += 1


def reset() -> None:
    """As if no test had used it."""
    VaultProvider.secrets.clear()
    VaultProvider.asked.clear()
    VaultProvider.ttl_ms = None
    VaultProvider.answer = None
    VaultProvider.made = VaultProvider.closed = 0


def install(folder: Path) -> None:
    """Writes what a package that registers the provider would have installed; `folder` is then to
    be added to `sys.path`."""
    info = folder / "test_vault-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: test-vault\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[connect.config_providers]\n{NAME} = {__name__}:VaultProvider\n"
        f"not-a-provider = {__name__}:install\n"
    )
