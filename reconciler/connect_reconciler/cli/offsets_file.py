"""The offsets that `offsets alter` is given: JSON as KIP-875 has it in PATCH /offsets."""

from __future__ import annotations

import sys
from pathlib import Path

from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.json_documents import parse_json
from connect_specs.nodes import Map, Node, Scalar
from connect_specs.spec_offsets import read_pin
from connect_specs.text_files import BYTES_MAX, decoded, read_text

STDIN = "-"


def read_offsets(file: Path) -> tuple[OffsetEntry, ...]:
    """The entries of `{"offsets": [...]}`; `-` reads stdin. Raises Invalid with every mistake."""
    name = "stdin" if str(file) == STDIN else file.name
    given = str(file) == STDIN
    text = decoded(sys.stdin.buffer.read(BYTES_MAX + 1), name) if given else read_text(file, name)
    parsed = parse_json(text, name)
    problems = list(parsed.problems)
    entries = _entries(parsed.documents, name, problems)
    if entries is None or problems:
        raise Invalid(*problems)
    # The same fields and rules as a pin's, so the same reader.
    pin = (Scalar("pin", entries.where), Scalar("by hand", entries.where))
    found = read_pin(Map((pin, (Scalar("set", entries.where), entries)), entries.where), problems)
    if found is None or problems:
        raise Invalid(*problems)
    return found.set


def _entries(documents: tuple[Node, ...], name: str, problems: list[Diagnostic]) -> Node | None:
    document = documents[0] if documents else None
    found = document.get("offsets") if isinstance(document, Map) else None
    if found is None and not problems:
        what = "there is no 'offsets'"
        hint = 'write {"offsets": [{"partition": {...}, "offset": {...}}]}'
        problems.append(Diagnostic("offsets.missing-field", what, Location(name, 1, 1), hint=hint))
    return found
