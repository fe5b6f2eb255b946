"""Finds which values of `values/` are secret, and which config keys they reach through templates.

To find where a secret goes, each file is rendered again with stand-ins for the secrets: a text that
differs contains a secret, whatever filters made of it and however short it is. A reference
`${provider:path:key}` is not secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.secrets import (
    HIDDEN,
    Redactor,
    holds_text,
    is_secret_value,
    is_sensitive,
    secret_parts,
    without_references,
)
from connect_specs.values import ENV, OPTION, Value, Values, flat, value_of
from connect_specs.yaml_documents import parse_yaml

_PIECE = re.compile(r"[\w.-]{4,}")
# Replaces letters by letters and digits by digits, so that YAML parses the text alike
_STAND_INS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "bcdefghijklmnopqrstuvwxyzaBCDEFGHIJKLMNOPQRSTUVWXYZA1234567892",
)


def gives_secret(text: str, secrets: Collection[str]) -> bool:
    """Returns True if a `--var` value, as text or as a list or map in YAML, contains one of
    `secrets`."""
    values = (value_of(node, []) for node in parse_yaml(text, OPTION).documents)
    return holds_text(text, secrets) or any(
        holds_text(str(leaf), secrets) for value in values for _, leaf in _leaves(value)
    )


def secret_texts(values: Values) -> tuple[str, ...]:
    """Returns the texts of the secret values."""
    return tuple(dict.fromkeys(_texts(values.names, "", values.sensitive)))


def redacted(problems: Iterable[Diagnostic], values: Values) -> list[Diagnostic]:
    """Returns the diagnostics without secret values, and the pieces that YAML may split them into.

    Secrets of less than four characters are redacted as separate words.
    """
    secrets = secret_texts(values)
    pieces = (piece for secret in secrets for piece in _PIECE.findall(secret))
    redactor = Redactor((*secrets, *pieces), mask=HIDDEN, shortest=1)
    return [
        replace(
            problem,
            what=redactor.redact(problem.what),
            why=redactor.redact(problem.why),
            hint=redactor.redact(problem.hint),
        )
        for problem in problems
    ]


def with_stand_ins(values: Values) -> Values | None:
    """Returns the values with a stand-in for each secret; None if there is no secret."""
    names = {key: _stand_in(inner, key, values.sensitive) for key, inner in values.names.items()}
    return None if names == values.names else replace(values, names=names)


def with_secrets_marked(
    connector: DesiredConnector,
    stand_in: DesiredConnector | None,
    texts: tuple[str, ...],
    problems: list[Diagnostic],
) -> DesiredConnector:
    """Returns the connector with the config keys that hold secret values of `values/` among its
    `sensitive`.

    `stand_in` is the same connector with stand-ins, None if the templates fail with them: then a
    key counts as secret if its value contains one of `texts`. A secret outside the config is added
    to `problems`, because plans show it.
    """
    if stand_in is None:
        keys = [key for key, value in connector.config.items() if holds_text(value, texts)]
    else:
        keys = [k for k in connector.config if connector.config[k] != stand_in.config.get(k)]
        problems.extend(_outside_config(connector, stand_in))
    named = (*connector.sensitive, *(key for key in keys if key not in connector.sensitive))
    return replace(connector, sensitive=named, secrets=texts) if keys else connector


def _outside_config(
    connector: DesiredConnector, stand_in: DesiredConnector
) -> Iterator[Diagnostic]:
    differences = {
        "the name": connector.name != stand_in.name,
        "a config key": connector.config.keys() != stand_in.config.keys(),
        "'renamed_from'": connector.renamed_from != stand_in.renamed_from,
        "'offsets'": _pin(connector) != _pin(stand_in),
        "'lifecycle' or 'sensitive'": (connector.ignore, connector.sensitive)
        != (stand_in.ignore, stand_in.sensitive),
    }
    for field, differs in differences.items():
        if differs:
            message = f"{field} contains a secret value of values/, which plans would show"
            hint = "secrets can only be values in 'config'; rename a value that is not a secret"
            yield Diagnostic("values.secret-shown", message, connector.where, hint=hint)


def _pin(connector: DesiredConnector) -> object:
    pin = connector.pin
    return None if pin is None else replace(pin, where=None)


def _texts(value: Value | Mapping[str, Value], name: str, globs: Iterable[str]) -> Iterator[str]:
    for key, leaf in _leaves(value, name):
        if _is_secret(leaf, key, globs):
            text = str(leaf)
            yield from (text, text.strip(), repr(text)[1:-1], *secret_parts(text))


def _leaves(
    value: Value | Mapping[str, Value], name: str = ""
) -> Iterator[tuple[str, str | int | bool]]:
    """Yields each scalar by dotted name; those of a list have the list's."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value


def _stand_in(value: Value, name: str, globs: Iterable[str]) -> Value:
    if isinstance(value, dict):
        return {key: _stand_in(inner, f"{name}.{key}", globs) for key, inner in value.items()}
    if isinstance(value, list):
        return [_stand_in(inner, name, globs) for inner in value]
    if not _is_secret(value, name, globs):
        return value
    if isinstance(value, int):
        return int(str(value).translate(_STAND_INS))
    stand_in = value.translate(_STAND_INS)
    return stand_in if stand_in != value else f"{value}x"


def _is_secret(value: str | int | bool, name: str, globs: Iterable[str]) -> bool:
    """Returns True if the value is secret; references are not, and neither are true and false."""
    if isinstance(value, bool) or not without_references(str(value)).strip():
        return False
    return is_secret_value(name, globs)


# --- the origins of values: the file that sets each, and others that it overrides ---


@dataclass(frozen=True, slots=True)
class Origin:
    """One value by its dotted name: `text` None if it is secret; `overrides`, the newest first."""

    name: str
    text: str | None
    where: Location
    overrides: tuple[Location, ...] = ()


def origins(values: Values) -> Iterator[Origin]:
    """Yields every value that templates may use, by name, except the name of the environment."""
    for name, value in sorted(flat(values.names)):
        if name == ENV and values.env is not None:
            continue
        locations = [at for layer in reversed(values.layers) for at in _locations(layer, name)]
        yield Origin(
            name, _shown(name, value, values.sensitive), locations[0], tuple(locations[1:])
        )


def _locations(layer: Mapping[str, Location], name: str) -> list[Location]:
    """Returns the places of the name in a file; a map that another value replaces has several."""
    keys = name.split(".")
    prefixes = {".".join(keys[: end + 1]) for end in range(len(keys))}
    return [at for key, at in layer.items() if key in prefixes or key.startswith(f"{name}.")]


def _shown(name: str, value: Value, globs: tuple[str, ...]) -> str | None:
    text = "true" if value is True else "false" if value is False else str(value)
    is_secret = any(True for _ in _texts(value, name, globs))
    return None if is_secret or is_sensitive("", text) else text
