"""Secrets that a cluster shows masked: is one unchanged, and can it be written? Pure.

A mask stands for the value that was written last. It counts as the spec's value, unless the ledger
holds the fingerprint of another one; and no mask is ever written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.reserved import without_reserved
from connect_reconciler.model.secrets.sensitive import fingerprint, is_mask
from connect_specs.desired import Desired
from connect_specs.diagnostics import Diagnostic


def masked_keys(config: Mapping[str, str]) -> frozenset[str]:
    """The keys whose values only stand for others."""
    return frozenset(key for key, text in config.items() if text and is_mask(text))


def unmasked(
    name: str,
    config: Mapping[str, str],
    wanted: Mapping[str, str],
    recorded: Mapping[str, str],
    key: bytes | None,
) -> dict[str, str]:
    """`config` with the spec's values in place of masks, where they are those written last.

    `recorded` is what the ledger says of that, with fingerprints by `key`.
    """
    found = dict(config)
    for masked in masked_keys(config) & wanted.keys():
        text = wanted[masked]
        written = recorded.get(masked, "")
        if written in ("", text, fingerprint(key, name, masked, text)):
            found[masked] = text
    return found


def same_config(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether both say the same, as far as masks let it be seen."""
    hidden = masked_keys(found)
    return found.keys() == wanted.keys() and all(
        found[key] == wanted[key] for key in found.keys() - hidden
    )


def same_spec(found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """The same for what specs say: without the keys that connect adds and the name."""
    name = {"name": ""}
    return same_config(without_reserved(found) | name, without_reserved(wanted) | name)


def see_through_masks(live: Live, desired: Desired) -> Live:
    """The live state with known values in place of masks; what is masked counts as sensitive."""
    connectors = dict(live.connectors)
    sensitive = dict(live.password_keys)
    warnings: list[Diagnostic] = []
    for name, connector in live.connectors.items():
        hidden = masked_keys(connector.config)
        if not hidden:
            continue
        sensitive[name] = sensitive.get(name, frozenset()) | hidden
        spec = desired.connectors.get(name)
        if spec is not None:
            config = seen(name, connector.config, live, desired)
            connectors[name] = replace(connector, config=config)
            warnings.extend(_not_told(connector, live, hidden & spec.config.keys()))
    return replace(
        live,
        connectors=connectors,
        password_keys=sensitive,
        warnings=(*live.warnings, *warnings),
    )


def seen(name: str, config: Mapping[str, str], live: Live, desired: Desired) -> dict[str, str]:
    """One connector's config without the masks that the spec and the ledger see through."""
    spec, owned = desired.connectors.get(name), live.ledger.connectors.get(name)
    wanted = {} if spec is None else spec.config
    recorded = {} if owned is None else owned.config
    return unmasked(name, config, wanted, recorded, live.ledger.fingerprint_key)


def _not_told(connector: LiveConnector, live: Live, hidden: frozenset[str]) -> Iterator[Diagnostic]:
    owned = live.ledger.connectors.get(connector.name)
    recorded = {} if owned is None else owned.config
    unknown = sorted(key for key in hidden if not recorded.get(key))
    if unknown:
        yield Diagnostic(
            "plan.secret-unknown",
            f"{connector.name}: whether {', '.join(unknown)} changed is not known, and taken as no",
            why="the cluster masks it, and no fingerprint of what was applied is kept",
            hint="set CONNECT_FINGERPRINT_KEY; the next config change then keeps one",
            severity="warning",
        )
