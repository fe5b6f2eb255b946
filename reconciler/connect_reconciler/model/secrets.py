"""Secret config values: redacted in configs, in the ledger and in texts that quote them; and the
values behind the masks that a cluster shows in their place. Pure.

`connect_specs.secrets` decides which values are secret. Plans and the ledger hold fingerprints in
their place, keyed per project, and bound to connector and config key.
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
from connect_specs.secrets import HIDDEN, SENSITIVE, Redactor, is_sensitive, secret_parts

# Texts in a secret's place: of Connect itself, of hosted clusters, and ours
_MASK = re.compile(r"\*{3,}|•{3,}|[\[(<](hidden|redacted|masked|sensitive)[\])>]", re.IGNORECASE)
_FINGERPRINT = re.compile("[0-9a-f]{64}")


def is_mask(value: str) -> bool:
    """Returns True for a text in a secret's place, as all or as its secret part."""
    return all(map(_MASK.fullmatch, secret_parts(value) or (value.strip(),)))


def fingerprint(key: bytes | None, connector: str, config_key: str, value: str) -> str:
    """Returns HMAC-SHA256 in hex, or nothing without a key: a bare hash of a short secret can be
    guessed.

    Bound to connector and config key, so that fingerprints do not reveal that secrets are equal.
    """
    if key is None:
        return ""
    return _hmac(key, ["value", connector, config_key, value])


def is_fingerprint(text: str) -> bool:
    """Returns True for a text of the form of a fingerprint."""
    return _FINGERPRINT.fullmatch(text) is not None


def recorded_secrets(owned: Owned) -> frozenset[str]:
    """Returns the keys of secrets, of which the ledger holds fingerprints in place of values."""
    return frozenset(
        key
        for key, text in owned.config.items()
        if is_fingerprint(text) and key not in owned.untyped
    )


def recorded_empty(owned: Owned) -> frozenset[str]:
    """Returns the keys without a value in the ledger, among them secrets that were recorded without
    a key for fingerprints."""
    return frozenset(key for key, text in owned.config.items() if not text)


def key_id(key: bytes | None) -> str:
    """Returns an identifier of the fingerprint key; empty if there is none."""
    return "" if key is None else _hmac(key, ["key"])[:16]


@dataclass(frozen=True, slots=True)
class ConfigRedactor:
    """Redacts one connector's secrets: with the project's key, the config keys known to be
    sensitive, and texts that are secret wherever they are quoted. `untyped` are those of `named`
    that are hidden only because their types could not be asked for."""

    connector: str
    key: bytes | None = field(repr=False)
    named: frozenset[str] = frozenset()
    texts: tuple[str, ...] = field(default=(), repr=False)
    untyped: frozenset[str] = frozenset()

    def is_secret(self, config_key: str, text: str) -> bool:
        """Returns True if the value must never be shown."""
        return is_sensitive(config_key, text, self.named)

    def value(self, config_key: str, text: str) -> Value:
        """Returns the value as a plan may hold it."""
        if is_sensitive(config_key, text, self.named):
            return Secret(fingerprint(self.key, self.connector, config_key, text))
        return Plain(text)

    def values(self, config: Mapping[str, str]) -> dict[str, Value]:
        """Returns the config as a plan may hold it."""
        return {key: self.value(key, text) for key, text in config.items()}

    def hidden(self, config: Mapping[str, str]) -> frozenset[str]:
        """Returns the keys whose values are hidden only because their types could not be asked
        for."""
        typed = self.named - self.untyped
        return frozenset(
            key
            for key, text in config.items()
            if key in self.untyped
            and self.is_secret(key, text)
            and not is_sensitive(key, text, typed)
        )

    def shown(self, config: Mapping[str, str]) -> dict[str, str]:
        """Returns the config as text, with a placeholder for each secret."""
        return {
            key: SENSITIVE if self.is_secret(key, text) else text for key, text in config.items()
        }

    def is_recorded(self, config_key: str, text: str | None, recorded: str | None) -> bool:
        """Returns True if the ledger's record of a key, a text or a fingerprint, is this value."""
        if recorded is None or text is None:
            return recorded is text
        if recorded in (text, fingerprint(self.key, self.connector, config_key, text)):
            return True
        if not self.is_secret(config_key, text):
            return False
        # without the key for fingerprints no value can be compared
        return not recorded or (self.key is None and is_fingerprint(recorded))

    def for_texts(self, *configs: Mapping[str, str]) -> Redactor:
        """Returns a redactor of the secrets of these configs in any number of texts."""
        return Redactor.of_configs(
            *configs, named=self.named, texts=self.texts, mask=HIDDEN, shortest=1
        )

    def redact(self, text: str, *configs: Mapping[str, str]) -> str:
        """Returns a text, such as an error or a trace, without the secrets of these configs."""
        return self.for_texts(*configs).redact(text)


def live_redactor(name: str, live: Live, spec: DesiredConnector | None = None) -> ConfigRedactor:
    """Returns a redactor of the connector's secrets by its plugins and its spec, with the project's
    key."""
    keys = live.password_keys.get(name, frozenset()).union(() if spec is None else spec.sensitive)
    untyped = frozenset(live.untyped_keys.get(name, ()))
    return ConfigRedactor(name, live.ledger.fingerprint_key, keys, untyped=untyped)


def applying_redactor(name: str, live: Live, desired: Desired, key: bytes | None) -> ConfigRedactor:
    """Returns a redactor for the ledger and for every text of an apply. Keys that the spec which
    renames the connector calls sensitive are redacted under its old name, too."""
    keys = live.password_keys.get(name, frozenset())
    untyped = frozenset(live.untyped_keys.get(name, ()))
    texts: tuple[str, ...] = ()
    for spec in desired.connectors.values():
        if name in (spec.name, spec.renamed_from):
            keys |= frozenset(spec.sensitive) | live.password_keys.get(spec.name, frozenset())
            untyped |= frozenset(live.untyped_keys.get(spec.name, ()))
            texts += spec.secrets
    return ConfigRedactor(name, key, keys, texts, untyped)


def config_fingerprint(
    config: Mapping[str, Value],
    *,
    connector: str,
    key: bytes | None,
    leaving_out: Collection[str] = (),
) -> str:
    """Returns one fingerprint over a whole config, the same whichever values count as secret."""
    marks = {
        name: _mark(key, connector, name, value)
        for name, value in config.items()
        if name not in leaving_out
    }
    return _hmac(key or b"", ["config", connector, marks])


def reveal(
    config: Mapping[str, Value], texts: Mapping[str, str], *, connector: str, key: bytes | None
) -> dict[str, str]:
    """Returns the config with its secrets filled in from `texts`, as `diff.written_config` gives
    them.

    Raises Stale if one of them is missing, or is not the value that the plan was made with. A
    secret without a fingerprint is taken as it is: only a plan that never left the process has one.
    """
    revealed: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for name, value in config.items():
        if isinstance(value, Plain):
            revealed[name] = value.text
            continue
        text = texts.get(name)
        actual = None if text is None else fingerprint(key, connector, name, text)
        if text is None or (value.fingerprint and actual != value.fingerprint):
            message = f"the value of {name} is not the one that the plan was made with"
            hint = "make the plan again"
            problems.append(Diagnostic("stale.secret", message, connector, hint=hint))
        else:
            revealed[name] = text
    if problems:
        raise Stale(*problems)
    return revealed


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
    """Returns the keys whose values are masks."""
    return frozenset(key for key, text in config.items() if text and is_mask(text))


def unmasked(
    name: str, config: Mapping[str, str], ledger: LedgerState, desired: Desired
) -> dict[str, str]:
    """Returns a connector's config with the spec's values in place of masks, where they are those
    written last, by the ledger's record of them."""
    spec, owned = desired.connectors.get(name), ledger.connectors.get(name)
    texts = {} if spec is None else spec.config
    recorded = {} if owned is None else owned.config
    values = dict(config)
    for key in masked_keys(config) & texts.keys():
        mark = fingerprint(ledger.fingerprint_key, name, key, texts[key])
        if recorded.get(key, "") in ("", texts[key], mark):
            values[key] = texts[key]
    return values


def same_config(live: Mapping[str, str], desired: Mapping[str, str]) -> bool:
    """Returns True if the configs are equal, as far as masks do not hide their values."""
    return live.keys() == desired.keys() and all(
        live[key] == desired[key] for key in live.keys() - masked_keys(live)
    )


def same_spec(live: Mapping[str, str], desired: Mapping[str, str]) -> bool:
    """Returns True if the configs are equal without the name and the keys that connect adds."""
    name = {"name": ""}
    return same_config(without_reserved(live) | name, without_reserved(desired) | name)


def see_through_masks(live: Live, desired: Desired) -> Live:
    """Returns the live state with known values in place of masks; masked keys count as
    sensitive."""
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
            config = unmasked(name, connector.config, live.ledger, desired)
            connectors[name] = replace(connector, config=config)
            warnings.extend(_unknown_changes(connector, live, hidden & spec.config.keys()))
    return replace(
        live,
        connectors=connectors,
        password_keys=sensitive,
        warnings=(*live.warnings, *warnings),
    )


def _unknown_changes(
    connector: LiveConnector, live: Live, hidden: frozenset[str]
) -> Iterator[Diagnostic]:
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
