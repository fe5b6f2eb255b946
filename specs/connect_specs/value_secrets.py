"""Finds which values of `values/` are secret, and which config keys they reach through templates.

A value is secret if its name, or that of a map around it, names a secret, or if a values file lists
the name under `sensitive`. A reference `${provider:path:key}` is not secret.

To find where a secret goes, each file is rendered again with stand-ins for the secrets: what
differs contains a secret, whatever filters made of it and however short it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic
from connect_specs.given_values import OPTION
from connect_specs.redaction import Redactor
from connect_specs.secret_names import is_secret_name
from connect_specs.secret_parts import secret_parts, without_references
from connect_specs.value_nodes import Value, value_of
from connect_specs.values import Values
from connect_specs.yaml_documents import parse_yaml

HIDDEN = "(hidden)"

_PIECE = re.compile(r"[\w.-]{4,}")
# Replaces letters by letters and digits by digits, so that YAML parses the text alike
_OTHERS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "bcdefghijklmnopqrstuvwxyzaBCDEFGHIJKLMNOPQRSTUVWXYZA1234567892",
)


def is_secret_value(name: str, listed: Iterable[str]) -> bool:
    """Whether the value of a dotted name is secret; `listed` is what files call sensitive."""
    parts = name.split(".")
    above = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return any(is_secret_name(part) for part in parts) or any(
        fnmatchcase(each, glob) for each in above for glob in listed
    )


def holds_secret_value(value: Value, name: str, listed: Iterable[str]) -> bool:
    """Whether the value of a dotted name is secret, or one inside it is."""
    return any(True for _ in _texts(value, name, listed))


def gives_secret(text: str, secrets: Collection[str]) -> bool:
    """Whether a `--var` value, as text or as a list or map in YAML, contains one of `secrets`."""
    values = (value_of(node, []) for node in parse_yaml(text, OPTION).documents)
    return holds_text(text, secrets) or any(
        holds_text(each, secrets) for value in values for each in _leaves(value)
    )


def secret_texts(values: Values) -> tuple[str, ...]:
    """Returns the texts of the secret values."""
    return tuple(dict.fromkeys(_texts(values.names, "", values.sensitive)))


def redacted(problems: Iterable[Diagnostic], values: Values) -> list[Diagnostic]:
    """Redacts secret values in diagnostics, and the pieces that YAML may split them into.

    Secrets of less than four characters are redacted where they are whole words.
    """
    secrets = secret_texts(values)
    pieces = (piece for secret in secrets for piece in _PIECE.findall(secret))
    redactor = Redactor((*secrets, *pieces), mask=HIDDEN, shortest=1)
    return [
        replace(
            each,
            what=redactor.redact(each.what),
            why=redactor.redact(each.why),
            hint=redactor.redact(each.hint),
        )
        for each in problems
    ]


def with_stand_ins(values: Values) -> Values | None:
    """Returns the values with a stand-in for each secret; None if there is no secret."""
    names = _stand_ins(values.names, "", values.sensitive)
    return None if names == values.names else replace(values, names=names)


def with_secrets_marked(
    connector: DesiredConnector,
    other: DesiredConnector | None,
    texts: tuple[str, ...],
    problems: list[Diagnostic],
) -> DesiredConnector:
    """Adds the config keys that hold secret values of `values/` to the connector's `sensitive`.

    `other` is the same connector with stand-ins, None if the templates fail with them: then a key
    counts as secret if its value contains one of `texts`. A secret outside the config is added to
    `problems`, because plans show it.
    """
    if other is None:
        keys = [key for key, value in connector.config.items() if holds_text(value, texts)]
    else:
        keys = [k for k in connector.config if connector.config[k] != other.config.get(k)]
        problems.extend(_outside(connector, other))
    named = (*connector.sensitive, *(key for key in keys if key not in connector.sensitive))
    return replace(connector, sensitive=named, secrets=texts) if keys else connector


def holds_text(value: str, secrets: Iterable[str]) -> bool:
    """Whether the value is one of the secrets, or contains one of four or more characters."""
    return any(value == each or (len(each) >= 4 and each in value) for each in secrets)


def _outside(connector: DesiredConnector, other: DesiredConnector) -> Iterator[Diagnostic]:
    names = connector.config.keys() ^ other.config.keys()
    found = {
        "the name": connector.name != other.name,
        "a config key": bool(names),
        "'renamed_from'": connector.renamed_from != other.renamed_from,
        "'offsets'": _pin(connector) != _pin(other),
        "'lifecycle' or 'sensitive'": (connector.ignore, connector.sensitive)
        != (other.ignore, other.sensitive),
    }
    for place, differs in found.items():
        if differs:
            what = f"{place} contains a secret value of values/, which plans would show"
            hint = "secrets can only be values in 'config'; rename a value that is not a secret"
            yield Diagnostic("values.secret-shown", what, connector.where, hint=hint)


def _pin(connector: DesiredConnector) -> object:
    pin = connector.pin
    return None if pin is None else replace(pin, where=None)


def _texts(value: Value | Mapping[str, Value], name: str, listed: Iterable[str]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{name}.{key}" if name else key, listed)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name, listed)
    elif _is_secret(value, name, listed):
        text = str(value)
        yield from (text, text.strip(), repr(text)[1:-1], *secret_parts(text))


def _leaves(value: Value) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield str(value)


def _stand_ins(value: Mapping[str, Value], name: str, listed: Iterable[str]) -> dict[str, Value]:
    return {
        key: _stand_in(inner, f"{name}.{key}" if name else key, listed)
        for key, inner in value.items()
    }


def _stand_in(value: Value, name: str, listed: Iterable[str]) -> Value:
    if isinstance(value, dict):
        return _stand_ins(value, name, listed)
    if isinstance(value, list):
        return [_stand_in(inner, name, listed) for inner in value]
    if not _is_secret(value, name, listed):
        return value
    if isinstance(value, int):
        return int(str(value).translate(_OTHERS))
    other = value.translate(_OTHERS)
    return other if other != value else f"{value}x"


def _is_secret(value: str | int | bool, name: str, listed: Iterable[str]) -> bool:
    """Whether the value is secret; references are not, and neither are true and false."""
    if isinstance(value, bool) or not without_references(str(value)).strip():
        return False
    return is_secret_value(name, listed)
