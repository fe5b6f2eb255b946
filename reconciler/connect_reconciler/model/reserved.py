"""The one config key that is ours: where the ledger is kept on a cluster reached by REST alone.

It is no part of a spec, and no difference between two configs.
"""

from __future__ import annotations

from collections.abc import Mapping

LEDGER_KEY = "connect.ledger"


def without_reserved(config: Mapping[str, str]) -> dict[str, str]:
    """The config as its spec would hold it."""
    return {key: value for key, value in config.items() if key != LEDGER_KEY}
