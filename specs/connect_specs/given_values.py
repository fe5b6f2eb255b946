"""Reads values from the command line, `--var NAME=VALUE`, typed like those of values files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.fields import did_you_mean
from connect_specs.nodes import Map, Scalar, Sequence
from connect_specs.value_nodes import Value, flat, scalar_value, value_of
from connect_specs.yaml_documents import parse_yaml

OPTION = "--var"

_WHERE = Location(OPTION)
_NULLS = frozenset({"~", "null", "Null", "NULL"})


def read_given(
    given: Iterable[str], names: Mapping[str, Value], problems: list[Diagnostic]
) -> tuple[dict[str, Value], dict[str, Location]]:
    """Returns `names` with the given values, and where these come from; the last of a name wins.

    A dotted name reaches into a map: `db.host=localhost`. Where the files have a list or a map, the
    value is YAML and replaces it: `regions=[eu, us]`. Mistakes are added to `problems`, which never
    hold a value.
    """
    found, places = dict(names), dict[str, Location]()
    for each in given:
        name, sign, text = each.partition("=")
        where = Location(f"{OPTION} {name}") if sign else _WHERE
        if not sign or not name:
            what, hint = "this is not NAME=VALUE", f"write {OPTION} NAME=VALUE"
            problems.append(Diagnostic("values.bad-var", what, where, hint=hint))
            continue
        keys = name.split(".")
        before = _at(found, keys)
        if before is None:
            problems.append(_unknown(name, found, where))
            continue
        value = _value(text, before, where, problems)
        if value is not None:
            found = _replaced(found, keys, value)
            places[name] = where
    return found, places


def _at(names: Mapping[str, Value], keys: list[str]) -> Value | None:
    found: Value | None = dict(names)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _value(text: str, before: Value, where: Location, problems: list[Diagnostic]) -> Value | None:
    if not isinstance(before, (list, dict)):
        if text in _NULLS:
            what, hint = "the value is null", f"write {where.file}= for an empty text"
            problems.append(Diagnostic("values.null", what, where, hint=hint))
            return None
        return scalar_value(Scalar(text, where, plain=True)) if text else text
    kind = "map" if isinstance(before, dict) else "list"
    parsed = parse_yaml(text, where.file)
    node = parsed.documents[0] if len(parsed.documents) == 1 and not parsed.problems else None
    if isinstance(node, Map if kind == "map" else Sequence):
        found: list[Diagnostic] = []
        value = value_of(node, found)
        problems.extend(replace(each, where=where) for each in found)
        return value
    what = f"the values files have a {kind} of this name, and this value is not a {kind}"
    shape = "{name: value}" if kind == "map" else "[first, second]"
    hint = f"write it in YAML: {where.file}='{shape}'"
    problems.append(Diagnostic("values.bad-var", what, where, hint=hint))
    return None


def _replaced(names: Mapping[str, Value], keys: list[str], value: Value) -> dict[str, Value]:
    first, *others = keys
    if not others:
        return {**names, first: value}
    inner = names[first]
    assert isinstance(inner, dict), "the name was found there"
    return {**names, first: _replaced(inner, others, value)}


def _unknown(name: str, names: Mapping[str, Value], where: Location) -> Diagnostic:
    what = f"no values file has the name {name!r}"
    known = {each for each, _ in flat(names)} | names.keys()
    hint = did_you_mean(name, known) if known else "add it to values/default.yaml"
    return Diagnostic("values.unknown-name", what, where, hint=hint)
