"""Which cluster a plan is for, as a reader knows it: its addresses, without logins. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from connect_specs.desired import Project

EMBEDDED = "embedded"

_BOOTSTRAP = "bootstrap.servers"
# Brokers that a line names
_NAMED = 2


@dataclass(frozen=True, slots=True)
class Target:
    """`rest` is the URL of a Connect cluster's REST API, without user and password, and None for
    our own runtime. `kafka` holds the bootstrap servers, or `embedded`; None over REST alone."""

    rest: str | None
    kafka: str | None


def target_of(project: Project) -> Target:
    """The cluster that connect.yaml names."""
    return Target(
        rest=None if project.target is None else _without_login(project.target.url),
        kafka=_kafka(project.kafka, alone=project.target is not None),
    )


def target_text(target: Target | None, group_id: str) -> str:
    """`https://connect.prod:8083, group orders`; of an unknown target only the group."""
    parts = []
    if target is not None and target.rest:
        parts.append(target.rest)
    if target is not None and target.kafka == EMBEDDED:
        parts.append("embedded Kafka")
    elif target is not None and target.kafka:
        servers = target.kafka.split(",")
        more = f" and {len(servers) - _NAMED} more" if len(servers) > _NAMED else ""
        parts.append(f"Kafka {','.join(servers[:_NAMED])}{more}")
    return ", ".join([*parts, f"group {group_id}"])


def _kafka(properties: Mapping[str, str] | None, *, alone: bool) -> str | None:
    if properties is None:
        return None if alone else EMBEDDED
    return ",".join(each.strip() for each in properties.get(_BOOTSTRAP, "").split(",")) or None


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
