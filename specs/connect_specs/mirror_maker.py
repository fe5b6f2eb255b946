"""Converts the file of a dedicated MirrorMaker to workers and connectors (KIP-382). Pure.

MirrorMaker runs a Connect worker for each flow between two clusters, with connectors of fixed
names. The same worker with the same topics continues where MirrorMaker stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.secrets import HIDDEN, is_sensitive
from connect_specs.writing import json_text

_PACKAGE: Final = "org.apache.kafka.connect.mirror"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLIENTS: Final = ("producer", "consumer", "admin")
_STORED: Final = ("offset.storage", "config.storage", "status.storage")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
# Connectors get all other properties of the file
_NO_CONNECTOR_KEYS: Final = (
    *(f"{client}." for client in _CLIENTS),
    *_STORED,
    *("task.", "worker.", "rest.", "listeners", "dedicated.mode.", "plugin."),
)
_HINT: Final = """\
stop MirrorMaker and run a worker for each flow with the properties below: it continues with
MirrorMaker's connectors, of which `connect import --all` writes specs. Where MirrorMaker has not
run, create the connectors from the JSON below."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction between two clusters: its worker's properties and its connectors' configs."""

    source: str
    target: str
    worker: Mapping[str, str] = field(repr=False)
    connectors: tuple[Mapping[str, str], ...] = field(repr=False)


def refuse_mirror_maker(properties: Mapping[str, str], file: str) -> None:
    """Raises Invalid, with the conversion, if the properties are those of a MirrorMaker."""
    if "clusters" not in properties or "group.id" in properties:
        return
    converted = flows(properties)
    text = "this file configures a dedicated MirrorMaker, not a worker"
    reason = "MirrorMaker has a worker and a group for each flow between two clusters"
    hint = "\n".join([_HINT, *(line for flow in converted for line in _lines(flow))])
    if not converted:
        hint = "enable a flow: SOURCE->TARGET.enabled=true"
    raise Invalid(Diagnostic("worker.mirror-maker", text, file, reason, hint))


def flows(properties: Mapping[str, str]) -> tuple[Flow, ...]:
    """Returns the flows that MirrorMaker starts: enabled ones, and those that only send heartbeats
    to a source, from where its enabled flow carries them on."""
    aliases = [alias.strip() for alias in properties["clusters"].split(",") if alias.strip()]
    return tuple(_flows(properties, aliases))


def _flows(properties: Mapping[str, str], aliases: list[str]) -> Iterator[Flow]:
    for source, target in permutations(aliases, 2):
        own = _below(properties, f"{source}->{target}.")
        enabled = _is_true(own.get("enabled", ""))
        # the other direction alone needs its heartbeats
        needed = enabled or _is_true(properties.get(f"{target}->{source}.enabled", ""))
        beats = own.get(
            "emit.heartbeats.enabled", properties.get("emit.heartbeats.enabled", "true")
        )
        kinds = ("Source", "Checkpoint", "Heartbeat") if enabled else ("Heartbeat",)
        if enabled or (needed and _is_true(beats)):
            configs = (_connector(properties, aliases, source, target, kind) for kind in kinds)
            yield Flow(source, target, _worker(properties, source, target), tuple(configs))


def _worker(properties: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    cluster = _cluster(properties, target)
    security = {key: text for key, text in cluster.items() if _is_security(key)}
    inherited = {f"{client}.{key}": text for client in _CLIENTS for key, text in security.items()}
    common = {
        key: text
        for key, text in properties.items()
        if key.startswith(
            (*_STORED, *_CONVERTERS, "task.", "worker.", "config.providers", "plugin.")
        )
    }
    topics = {
        f"{kind}.storage.topic": f"mm2-{kind}{plural}.{source}.internal"
        for kind, plural in (("offset", "s"), ("config", "s"), ("status", ""))
    }
    converters = dict.fromkeys(_CONVERTERS, _BYTES)
    return {"group.id": f"{source}-mm2"} | topics | converters | inherited | cluster | common


def _connector(
    properties: Mapping[str, str], aliases: list[str], source: str, target: str, kind: str
) -> dict[str, str]:
    clusters = tuple(f"{alias}{separator}" for alias in aliases for separator in (".", "->"))
    common = {
        key: text
        for key, text in properties.items()
        if key not in ("clusters", "enabled", "bootstrap.servers")
        and not key.startswith((*clusters, *_NO_CONNECTOR_KEYS))
    }
    name = f"Mirror{kind}Connector"
    return {
        "name": name,
        "connector.class": f"{_PACKAGE}.{name}",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        **_of_cluster(_cluster(properties, source), "source"),
        **_of_cluster(_cluster(properties, target), "target"),
        **common,
        "enabled": "false",
        **_below(properties, f"{source}->{target}."),
    }


def _of_cluster(cluster: Mapping[str, str], side: str) -> dict[str, str]:
    """Returns a cluster's properties as a connector names them."""
    return {
        f"{side}.{key}" if key.startswith(_CLIENTS) else f"{side}.cluster.{key}": text
        for key, text in cluster.items()
    }


def _cluster(properties: Mapping[str, str], alias: str) -> dict[str, str]:
    """Returns a cluster's properties; logins that the file has for all are its own, too."""
    shared = {key: text for key, text in properties.items() if _is_client_key(key)}
    return shared | _below(properties, f"{alias}.")


def _below(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): text for key, text in properties.items() if key.startswith(prefix)
    }


def _is_client_key(key: str) -> bool:
    return key == "bootstrap.servers" or _is_security(key)


def _is_security(key: str) -> bool:
    return key == "security.protocol" or key.startswith(("ssl.", "sasl."))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _lines(flow: Flow) -> Iterator[str]:
    name = f"{flow.source}->{flow.target}"
    yield f"\n# {name}: worker.properties"
    yield from (f"{key}={_shown(key, text)}" for key, text in flow.worker.items())
    for config in flow.connectors:
        redacted = {key: _shown(key, text) for key, text in config.items()}
        yield f"\n# {name}: {config['name']}"
        yield json_text(redacted, indent=2)


def _shown(key: str, text: str) -> str:
    return HIDDEN if is_sensitive(key, text) else text
