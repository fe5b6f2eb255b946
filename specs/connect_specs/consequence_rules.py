"""Reads consequences.yaml, beside connect.yaml: what changing a project's config keys does.

A list; each entry gives the keys (`match`), what follows (`consequence`) and the text that a plan
shows (`says`). These rules take precedence over the built-in ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, get_args

from connect_specs.desired import ConnectorKind, Consequence, ConsequenceRule
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.fields import as_map, as_text, check_fields, did_you_mean, required
from connect_specs.nodes import Map, Node, Sequence
from connect_specs.text_files import read_text
from connect_specs.yaml_documents import parse_yaml

CONSEQUENCES_FILE = "consequences.yaml"

_CODE = "consequences"
_NAMES: Mapping[str, Consequence] = {name: name for name in get_args(Consequence)}
_KINDS: Mapping[str, ConnectorKind] = {kind: kind for kind in get_args(ConnectorKind)}

Known = TypeVar("Known", bound=str)


def read_consequences(folder: Path, problems: list[Diagnostic]) -> tuple[ConsequenceRule, ...]:
    """Returns the project's rules in order; none if the file does not exist."""
    file = folder / CONSEQUENCES_FILE
    if not file.exists() and not file.is_symlink():
        return ()
    try:
        parsed = parse_yaml(read_text(file, file.name), file.name)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return ()
    problems.extend(parsed.problems)
    found = [rule for node in parsed.documents for rule in _rules(node, problems)]
    return tuple(rule for rule in found if rule is not None)


def _rules(node: Node, problems: list[Diagnostic]) -> list[ConsequenceRule | None]:
    if isinstance(node, Sequence):
        return [_rule(item, problems) for item in node.items]
    hint = "write - {match: {key: ...}, consequence: ..., says: ...}"
    what = f"{CONSEQUENCES_FILE} must hold a list"
    problems.append(Diagnostic("consequences.not-a-list", what, node.where, hint=hint))
    return []


def _rule(node: Node, problems: list[Diagnostic]) -> ConsequenceRule | None:
    before = len(problems)
    fields = as_map(node, "a rule", _CODE, problems)
    if fields is None:
        return None
    check_fields(fields, ("match", "consequence", "says"), _CODE, "a rule", problems)
    named = required(fields, "consequence", _CODE, "a rule", problems)
    consequence = None if named is None else _one_of(named, "consequence", _NAMES, problems)
    says = _text(fields, "says", "a rule", problems)
    found = required(fields, "match", _CODE, "a rule", problems)
    match = None if found is None else as_map(found, "match", _CODE, problems)
    if match is None:
        return None
    check_fields(match, ("key", "class", "kind"), _CODE, "match", problems)
    key = _text(match, "key", "match", problems)
    classes, of_kind = match.get("class"), match.get("kind")
    of_class = "*" if classes is None else as_text(classes, "class", _CODE, problems)
    kind = None if of_kind is None else _one_of(of_kind, "kind", _KINDS, problems)
    if not (key and says and of_class and consequence) or len(problems) > before:
        return None
    return ConsequenceRule(key, consequence, says, of_class, kind)


def _text(node: Map, field: str, what: str, problems: list[Diagnostic]) -> str | None:
    value = required(node, field, _CODE, what, problems)
    return None if value is None else as_text(value, field, _CODE, problems)


def _one_of(
    node: Node, field: str, known: Mapping[str, Known], problems: list[Diagnostic]
) -> Known | None:
    text = as_text(node, field, _CODE, problems)
    if text is None or text in known:
        return known.get(text or "")
    what, hint = f"{field!r} cannot be {text!r}", did_you_mean(text, known)
    problems.append(Diagnostic("consequences.bad-value", what, node.where, hint=hint))
    return None
