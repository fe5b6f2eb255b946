"""Configs as a plan may hold them: values as plain text or as the fingerprint of a secret, and the
keys that no spec manages: the one that is ours, and those of the cluster.

A plan never holds a secret. Apply reads the value again from the specs and refuses if its
fingerprint differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


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


Value: TypeAlias = Plain | Secret


def recorded(config: Mapping[str, Value]) -> dict[str, str]:
    """The config as the ledger holds it: fingerprints in place of secrets."""
    return {
        key: value.text if isinstance(value, Plain) else value.fingerprint
        for key, value in config.items()
    }


# Where the ledger is kept on a cluster reached by REST alone: no part of a spec, and no difference
# between two configs
LEDGER_KEY = "connect.ledger"
# Some distributions add keys such as `__internal.config.version` to each config that is written
_OF_CLUSTER = "__internal."


def is_of_cluster(key: str) -> bool:
    """Whether a cluster adds the key itself: a change of it is no change of the config."""
    return key.startswith(_OF_CLUSTER)


def without_reserved(config: Mapping[str, str]) -> dict[str, str]:
    """The config as its spec would hold it."""
    return {
        key: value for key, value in config.items() if key != LEDGER_KEY and not is_of_cluster(key)
    }
