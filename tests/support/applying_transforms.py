"""Applies our transformations and predicates, with the answers of `ConnectClasses`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from connect_runtime.api import ConnectorError, Predicate, Transformation
from connect_runtime.api.record_plugins import ConnectRecord
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import PluginKind
from support.connect_json import Json, record_json

TABLES = Path(__file__).parents[1] / "oracle" / "transforms"
_JAVA = "org.apache.kafka.connect.transforms"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A class by its Java name, and its options."""

    name: str
    config: Mapping[str, str]

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.config.items())
        return f"{self.name.removeprefix(_JAVA + '.')}-{shown}"


def configurations() -> Iterator[Configuration]:
    """All of configs.yaml."""
    for name, of_class in yaml.safe_load((TABLES / "configs.yaml").read_text()).items():
        for half in of_class.get("half", [""]):
            full = f"{_JAVA}.{name}${half}" if half else f"{_JAVA}.{name}"
            for config in of_class["configs"]:
                yield Configuration(full, config)


def ours(name: str, config: Mapping[str, str], records: Sequence[ConnectRecord]) -> Json:
    """What our class does, as `ConnectClasses.apply` says it."""
    kind: PluginKind = "predicate" if ".predicates." in name else "transformation"
    plugin = registry.plugin(kind, "type", name).cls()
    try:
        plugin.configure(config)
    except ConnectorError as error:
        return _error(error)
    return {"results": [_result(plugin, record) for record in records]}


def _result(plugin: Transformation | Predicate, record: ConnectRecord) -> Json:
    before = record_json(record)
    try:
        if isinstance(plugin, Predicate):
            return {"test": plugin.test(record)}
        changed = plugin.apply(record)
    except ConnectorError as error:
        return _error(error)
    finally:
        assert record_json(record) == before, "the record itself was changed"
    return {"dropped": True} if changed is None else record_json(changed)


def _error(error: ConnectorError) -> Json:
    return {"error": type(error).java_class, "message": str(error)}
