"""Secret config values: redacted in configs, in the ledger and in texts that quote them; and seen
through the masks that a cluster shows in their place. Pure.

`connect_specs.secret_values` decides which values are secret. In their place this module gives
fingerprints, keyed per project, and bound to connector and config key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from connect_reconciler.model.config_values import Plain, Secret, Value, without_reserved
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Diagnostic, Stale, warning
from connect_specs.redaction import Redactor, secrets_in
from connect_specs.secret_parts import secret_parts
from connect_specs.secret_values import is_sensitive

SENSITIVE = "(sensitive)"
HIDDEN = "(hidden)"

# What others show in a secret's place: Connect itself, hosted clusters, and we
_MASK = re.compile(r"\*{3,}|•{3,}|[\[(<](hidden|redacted|masked|sensitive)[\])>]", re.IGNORECASE)
_FINGERPRINT = re.compile("[0-9a-f]{64}")


def is_mask(value: str) -> bool:
    """Whether this stands in a secret's place, as all or as its secret part, and is none itself."""
    return all(map(_MASK.fullmatch, secret_parts(value) or (value.strip(),)))


def fingerprint(key: bytes | None, connector: str, config_key: str, value: str) -> str:
    """HMAC-SHA256 in hex, or nothing without a key: a bare hash of a short secret can be guessed.

    Bound to connector and config key, so that equal secrets cannot be told from each other's.
    """
    if key is None:
        return ""
    return _hmac(key, ["value", connector, config_key, value])


def is_fingerprint(text: str) -> bool:
    """Whether it looks like one."""
    return _FINGERPRINT.fullmatch(text) is not None


def recorded_secrets(owned: Owned) -> frozenset[str]:
    """The keys of secrets, of which the ledger holds fingerprints in place of values."""
    return frozenset(
        key
        for key, text in owned.config.items()
        if is_fingerprint(text) and key not in owned.untyped
    )


def recorded_empty(owned: Owned) -> frozenset[str]:
    """The keys without a value in the ledger, among them secrets of which there was no key to make
    fingerprints with."""
    return frozenset(key for key, text in owned.config.items() if not text)


def key_id(key: bytes | None) -> str:
    """Tells whether two plans were made with the same key; empty without one."""
    return "" if key is None else _hmac(key, ["key"])[:16]


@dataclass(frozen=True, slots=True)
class ConfigRedactor:
    """Redacts one connector's secrets: with the project's key, the config keys known to be
    sensitive, and texts that are secret wherever they are quoted. `untyped` are those of `named`
    that are hidden only because nothing could tell their types."""

    connector: str
    key: bytes | None = field(repr=False)
    named: frozenset[str] = frozenset()
    texts: tuple[str, ...] = field(default=(), repr=False)
    untyped: frozenset[str] = frozenset()

    def value(self, config_key: str, text: str) -> Value:
        """The value as a plan may hold it."""
        if is_sensitive(config_key, text, self.named):
            return Secret(fingerprint(self.key, self.connector, config_key, text))
        return Plain(text)

    def hidden(self, config: Mapping[str, str]) -> frozenset[str]:
        """The keys whose values are hidden only because nothing could tell their types."""
        known = self.named - self.untyped
        return frozenset(
            key
            for key, text in config.items()
            if key in self.untyped
            and is_sensitive(key, text, self.named)
            and not is_sensitive(key, text, known)
        )

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config as text, with a placeholder for each secret."""
        return {
            key: SENSITIVE if is_sensitive(key, text, self.named) else text
            for key, text in config.items()
        }


def live_redactor(name: str, live: Live, spec: DesiredConnector | None = None) -> ConfigRedactor:
    """Redacts what the connector's plugins and its spec say is secret, with the project's key."""
    named = live.password_keys.get(name, frozenset()).union(() if spec is None else spec.sensitive)
    untyped = frozenset(live.untyped_keys.get(name, ()))
    return ConfigRedactor(name, live.ledger.fingerprint_key, named, untyped=untyped)


def applying_redactor(name: str, live: Live, desired: Desired, key: bytes | None) -> ConfigRedactor:
    """Redacts the connector's secrets in the ledger and in every text of an apply. Keys that the
    spec which renames it calls sensitive are redacted under its old name, too."""
    named = live.password_keys.get(name, frozenset())
    untyped = frozenset(live.untyped_keys.get(name, ()))
    texts: tuple[str, ...] = ()
    for spec in desired.connectors.values():
        if name in (spec.name, spec.renamed_from):
            named |= frozenset(spec.sensitive) | live.password_keys.get(spec.name, frozenset())
            untyped |= frozenset(live.untyped_keys.get(spec.name, ()))
            texts += spec.secrets
    return ConfigRedactor(name, key, named, texts, untyped)


def same_as_recorded(
    applied: str | None, text: str | None, key: str, redactor: ConfigRedactor
) -> bool:
    """Whether what the ledger holds of a key, as text or as a fingerprint, is this value."""
    if applied is None or text is None:
        return applied is text
    if applied == text or applied == fingerprint(redactor.key, redactor.connector, key, text):
        return True
    if not is_sensitive(key, text, redactor.named):
        return False
    # Without the key nothing can be told apart
    return not applied or (redactor.key is None and is_fingerprint(applied))


def redacted(config: Mapping[str, str], redactor: ConfigRedactor) -> dict[str, Value]:
    """The config as a plan may hold it."""
    return {key: redactor.value(key, text) for key, text in config.items()}


def redact(text: str, redactor: ConfigRedactor, *configs: Mapping[str, str]) -> str:
    """`text`, such as an error or a trace, without the secrets of these configs."""
    return redactor_of_texts(redactor, *configs).redact(text)


def redactor_of_texts(redactor: ConfigRedactor, *configs: Mapping[str, str]) -> Redactor:
    """Redacts the secrets of these configs in any number of texts."""
    secrets = (secret for config in configs for secret in secrets_in(config, redactor.named))
    return Redactor((*redactor.texts, *secrets), mask=HIDDEN, shortest=1)


def config_fingerprint(
    config: Mapping[str, Value],
    *,
    connector: str,
    key: bytes | None,
    leaving_out: Collection[str] = (),
) -> str:
    """One fingerprint over a whole config, the same whichever of its values count as secret."""
    marks = {
        name: _mark(key, connector, name, value)
        for name, value in config.items()
        if name not in leaving_out
    }
    return _hmac(key or b"", ["config", connector, marks])


def reveal(
    config: Mapping[str, Value], texts: Mapping[str, str], *, connector: str, key: bytes | None
) -> dict[str, str]:
    """The config with its secrets filled in from `texts`, as `diff.written_config` gives them.

    Raises Stale if one of them is missing, or is not the value that the plan was made with. A
    secret without a fingerprint is taken as it is: only a plan that never left the process has one.
    """
    found: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for name, value in config.items():
        if isinstance(value, Plain):
            found[name] = value.text
            continue
        text = texts.get(name)
        known = None if text is None else fingerprint(key, connector, name, text)
        if text is None or (value.fingerprint and known != value.fingerprint):
            what = f"the value of {name} is not the one that the plan was made with"
            problems.append(Diagnostic("stale.secret", what, connector, hint="make the plan again"))
        else:
            found[name] = text
    if problems:
        raise Stale(*problems)
    return found


def _mark(key: bytes | None, connector: str, config_key: str, value: Value) -> str:
    if isinstance(value, Secret):
        return value.fingerprint
    return fingerprint(key or b"", connector, config_key, value.text)


def _hmac(key: bytes, content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


# --- masks: each stands for the value that was written last, counts as the spec's value unless the
# ledger holds the fingerprint of another one, and is never written ---


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
            config = seen(name, connector.config, live.ledger, desired)
            connectors[name] = replace(connector, config=config)
            warnings.extend(_not_told(connector, live, hidden & spec.config.keys()))
    return replace(
        live,
        connectors=connectors,
        password_keys=sensitive,
        warnings=(*live.warnings, *warnings),
    )


def seen(
    name: str, config: Mapping[str, str], ledger: LedgerState, desired: Desired
) -> dict[str, str]:
    """One connector's config without the masks that the spec and the ledger see through."""
    spec, owned = desired.connectors.get(name), ledger.connectors.get(name)
    wanted = {} if spec is None else spec.config
    recorded = {} if owned is None else owned.config
    return unmasked(name, config, wanted, recorded, ledger.fingerprint_key)


def _not_told(connector: LiveConnector, live: Live, hidden: frozenset[str]) -> Iterator[Diagnostic]:
    owned = live.ledger.connectors.get(connector.name)
    recorded = {} if owned is None else owned.config
    unknown = sorted(key for key in hidden if not recorded.get(key))
    if unknown:
        yield warning(
            "plan.secret-unknown",
            f"{connector.name}: whether {', '.join(unknown)} changed is not known, and taken as no",
            why="the cluster masks it, and no fingerprint of what was applied is kept",
            hint="set CONNECT_FINGERPRINT_KEY; the next config change then keeps one",
        )
