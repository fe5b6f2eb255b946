"""Configs as a plan may hold them: values as plain text or as the fingerprint of a secret, and the
keys that no spec manages: the one that is ours, and those of the cluster.

A plan never holds a secret. Apply reads the value again from the specs and refuses if its
fingerprint differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema, WrapSerializer


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that may be shown."""

    text: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is never shown: HMAC-SHA256 of it, keyed per project, in hex.

    Empty while the project has no key: then not even a hash of the value is kept.
    """

    fingerprint: str


def _to_json(value: Plain | Secret) -> str | dict[str, str]:
    return value.text if isinstance(value, Plain) else {"secret": value.fingerprint}


def _from_json(value: object) -> Plain | Secret:
    match value:
        case str():
            return Plain(value)
        case {"secret": str(fingerprint), **others} if not others:
            return Secret(fingerprint)
    raise ValueError("a value is a text or the fingerprint of a secret")


_JSON_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"secret": {"type": "string"}},
            "required": ["secret"],
            "additionalProperties": False,
        },
    ]
}
# In a plan file a text, or `{"secret": fingerprint}`
Value: TypeAlias = Annotated[
    Plain | Secret,
    PlainSerializer(_to_json),
    PlainValidator(_from_json),
    WithJsonSchema(_JSON_SCHEMA),
]


# A connector's whole config; sorted in a plan file
Config: TypeAlias = Annotated[
    Mapping[str, Value],
    WrapSerializer(lambda config, handler: dict(sorted(handler(config).items()))),
]


def recorded(config: Mapping[str, Value]) -> dict[str, str]:
    """Returns the config as the ledger holds it: fingerprints in place of secrets."""
    return {
        key: value.text if isinstance(value, Plain) else value.fingerprint
        for key, value in config.items()
    }


# Holds the ledger on a cluster reached by REST alone: no part of a spec, and no difference between
# two configs
LEDGER_KEY = "connect.ledger"
# Some distributions add keys such as `__internal.config.version` to each config that is written
_OF_CLUSTER = "__internal."


def is_of_cluster(key: str) -> bool:
    """Returns whether a cluster adds the key itself: a change of it is no change of the config."""
    return key.startswith(_OF_CLUSTER)


def without_reserved(config: Mapping[str, str]) -> dict[str, str]:
    """Returns the config as its spec would hold it."""
    return {
        key: value for key, value in config.items() if key != LEDGER_KEY and not is_of_cluster(key)
    }
