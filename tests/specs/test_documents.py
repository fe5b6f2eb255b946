"""The three file formats: what they read, and where they say it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from connect_specs import yaml_documents
from connect_specs.documents import Map, Node, Parsed, Scalar, Sequence, is_null, typed
from connect_specs.json_documents import parse_json
from connect_specs.properties_documents import parse_properties
from connect_specs.yaml_documents import NODES_MAX, parse_yaml


def plain_value(node: Node) -> Any:
    if isinstance(node, Scalar):
        return typed(node)
    if isinstance(node, Sequence):
        return [plain_value(item) for item in node.items]
    return {key.text: plain_value(value) for key, value in node.entries}


def texts(node: Node) -> Any:
    """Every scalar as its text."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [texts(item) for item in node.items]
    return {key.text: texts(value) for key, value in node.entries}


def places(node: Node) -> list[str]:
    """Every key and scalar with its place, in file order."""
    if isinstance(node, Scalar):
        return [f"{node.location.line}:{node.location.column} {node.text}"]
    if isinstance(node, Sequence):
        return [place for item in node.items for place in places(item)]
    return [place for key, value in node.entries for place in (*places(key), *places(value))]


def only(parsed: Parsed) -> Node:
    assert parsed.problems == ()
    (node,) = parsed.documents
    return node


def problem(parsed: Parsed) -> str:
    (found,) = parsed.problems
    where = str(found.where).removeprefix("f:")
    return f"{found.code} {where}"


# line 48 nests 49 deep below the map, and its alias is the one too many
DEEP = "file.too-deep 49:12"

YAML_PROBLEMS = [
    ("a: [1\n", "file.syntax 2:1"),
    ("a: b: c\n", "file.syntax 1:5"),
    ("a:\n\t- b\n", "file.syntax 2:1"),
    ("ok: 1\n---\na: 'x\n", "file.syntax 4:1"),
    ("a: \x07\n", "file.syntax 1:4"),
    ("é: 1\nb: \ud800\n", "file.syntax 2:4"),
    ("a: 1\nb: 2\na: 3\n", "file.duplicate-key 3:1"),
    ('x:\n  1: a\n  "1": b\n', "file.duplicate-key 3:3"),
    ("<<: {a: 1}\n<<: {b: 1}\n", "file.duplicate-key 2:1"),
    ("a: *b\n", "file.alias 1:4"),
    ("a: &b [*b]\n", "file.alias 1:8"),
    ("a: &b 1\n---\na: *b\n", "file.alias 3:4"),
    ("a: !!int '5'\n", "file.tag 1:4"),
    ("a: !python/object:os.system {}\n", "file.tag 1:4"),
    ("{a: 1}: 2\n", "file.key 1:1"),
    ("<<: 5\n", "file.merge 1:5"),
    ("<<: [{a: 1}, 5]\n", "file.merge 1:14"),
    ("[" * 51, "file.too-deep 1:51"),
    ("a0: &a0 [1]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(60)), DEEP),
]


@pytest.mark.parametrize(("text", "expected"), YAML_PROBLEMS, ids=lambda x: repr(x)[:30])
def test_yaml_problem(text: str, expected: str) -> None:
    assert problem(parse_yaml(text, "f")) == expected


def test_yaml_problem_names_both_positions_and_helps() -> None:
    (duplicate,) = parse_yaml("a: 1\nb: 2\na: 3\n", "f").problems
    assert duplicate.why == "it is first given at f:1:1"
    (tab,) = parse_yaml("a:\n\t- b\n", "f").problems
    assert tab.hint == "indent with spaces: YAML allows no tabs there"
    (colon,) = parse_yaml("a: b: c\n", "f").problems
    assert colon.hint == "quote a value that holds ': '"


def test_documents_before_a_mistake_are_kept() -> None:
    parsed = parse_yaml("a: 1\n---\nb: 2\nb: 3\n---\n[", "f")
    assert [texts(node) for node in parsed.documents] == [{"a": "1"}, {"b": "2"}]
    assert [found.code for found in parsed.problems] == ["file.duplicate-key", "file.syntax"]


def test_a_small_yaml_file_cannot_grow_without_limit() -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    parsed = parse_yaml("\n".join(["a0: &a0 [x]", *levels]), "f")
    assert problem(parsed).startswith("file.too-large 6:")
    merges = [f"m{i}: {{<<: *big}}" for i in range(NODES_MAX // 1000)]
    big = ", ".join(f"k{i}: 1" for i in range(600))
    assert problem(parse_yaml("\n".join([f"big: &big {{{big}}}", *merges]), "f")).startswith(
        "file.too-large"
    )


def test_yaml_anchors_and_merge_keys() -> None:
    text = """
base: &base {a: 1, b: 2}
more: &more {b: 3, c: 4}
one: {<<: *base, a: own}
many: {<<: [*more, *base]}
literal: {"<<": *base}
"""
    assert texts(only(parse_yaml(text, "f"))) == {
        "base": {"a": "1", "b": "2"},
        "more": {"b": "3", "c": "4"},
        "one": {"a": "own", "b": "2"},
        "many": {"b": "3", "c": "4", "a": "1"},
        "literal": {"<<": {"a": "1", "b": "2"}},
    }


def test_yaml_is_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = sorted((Path(__file__).parent / "cases").rglob("*.y*ml"))
    assert len(cases) > 10
    found = [parse_yaml(path.read_text(), path.name) for path in cases]
    monkeypatch.setattr(yaml_documents, "_LOADER", yaml.BaseLoader)
    for path, quick in zip(cases, found, strict=True):
        slow = parse_yaml(path.read_text(), path.name)
        # the place of a value that is left out may be a column off
        for one, other in zip(slow.documents, quick.documents, strict=True):
            assert texts(one) == texts(other)
            assert [p for p in places(one) if p[-1] != " "] == [
                p for p in places(other) if p[-1] != " "
            ]
        # the wording of syntax errors is theirs
        assert [p.code for p in slow.problems] == [p.code for p in quick.problems]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "---\n---\n# x\n", "~\n"])
def test_yaml_without_a_document(text: str) -> None:
    assert parse_yaml(text, "f") == Parsed(())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *((text, text) for text in ("on", "Yes", "010", "0x1f", "1_000", "22:22", "2026-11-20")),
        *((text, text) for text in (".5", "5.", "+5", ".inf", ".nan", "1e", "-x", "tRue")),
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        *((text, True) for text in ("true", "True", "TRUE")),
        *((text, False) for text in ("false", "False", "FALSE")),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("! 5", "5"),
        ("0", 0),
        ("-7", -7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("-0.0", -0.0),
    ],
)
def test_typed_yaml(written: str, value: object) -> None:
    node = only(parse_yaml(f"a: {written}\n", "f"))
    assert isinstance(node, Map)
    found = node.get("a")
    assert isinstance(found, Scalar)
    assert repr(typed(found)) == repr(value)
    assert is_null(found) is (value is None)


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "-9223372036854775809", "9" * 5000, "1e999"]
)
def test_a_number_that_connect_cannot_keep(text: str) -> None:
    node = only(parse_json(text, "f"))
    assert isinstance(node, Scalar)
    with pytest.raises(ValueError, match=r"64 bits|too large"):
        typed(node)


def test_places() -> None:
    yaml_text = "é: 1\r\nb:\r\n  - 'x'\r\n  - {c: |\r\n  }\n"
    assert places(only(parse_yaml("é: 1\r\nb:\r\n  - 'x'\r\n  - {c: d}\r\n---\r\n", "f"))) == [
        "1:1 é",
        "1:4 1",
        "2:1 b",
        "3:5 x",
        "4:6 c",
        "4:9 d",
    ]
    assert problem(parse_yaml(yaml_text, "f")).startswith("file.syntax 4:")
    assert places(only(parse_json('{"é": 1,\r\n\t"b": ["x",\n{"c":"d"}]}', "f"))) == [
        "1:2 é",
        "1:7 1",
        "2:2 b",
        "2:8 x",
        "3:2 c",
        "3:6 d",
    ]
    properties = "é = 1\r\n# comment\r\n  b:x\\\r\n  y\nc\nd=\n"
    assert places(only(parse_properties(properties, "f"))) == [
        "1:1 é",
        "1:5 1",
        "3:3 b",
        "3:5 xy",
        "5:1 c",
        "5:2 ",
        "6:1 d",
        "6:3 ",
    ]


JSON_PROBLEMS = [
    ("", "1:1"),
    (" \n ", "2:2"),
    ("{", "1:2"),
    ('{"a"', "1:5"),
    ('{"a":', "1:6"),
    ('{"a":1', "1:7"),
    ("[1 2]", "1:4"),
    ("{a: 1}", "1:2"),
    ("'a'", "1:1"),
    ("01", "1:2"),
    ("+1", "1:1"),
    ("1.", "1:2"),
    (".5", "1:1"),
    ("truely", "1:5"),
    ("NaN", "1:1"),
    ("1 2", "1:3"),
    ('"a', "1:1"),
    ('"a\nb"', "1:3"),
    ('"\t"', "1:2"),
    ('"\\x"', "1:2"),
    ('"\\u12g4"', "1:3"),
    ('"\\ud83d"', "1:1"),
    ('"\\ude00\\ud83d"', "1:1"),
    ("\ufeff1", "1:1"),
    ("/* no */ 1", "1:1"),
    ("\xa01", "1:1"),
    ("\uff11", "1:1"),
]


@pytest.mark.parametrize(("text", "expected"), JSON_PROBLEMS)
def test_json_problem(text: str, expected: str) -> None:
    assert problem(parse_json(text, "f")) == f"file.syntax {expected}"


def test_json_nested_too_deep() -> None:
    assert problem(parse_json("[" * 51 + "]" * 51, "f")) == "file.syntax 1:51"
    assert problem(parse_json("[" * 100_000, "f")) == "file.syntax 1:51"
    assert parse_json('{"a":' * 49 + "1" + "}" * 49, "f").problems == ()
    assert problem(parse_json('{"a":' * 51, "f")) == "file.syntax 1:251"


def test_a_json_problem_has_its_reason_and_the_usual_slips() -> None:
    for text, reason in [
        ('"a', "Unterminated string starting at"),
        ("[1 2]", "Expecting ',' delimiter"),
        ('{"a": NaN}', "NaN is not a number"),
        ('"\\ud83d"', "Half of a surrogate pair is not a character"),
    ]:
        (found,) = parse_json(text, "f").problems
        assert (found.what, found.why) == ("this is not JSON", reason)
        assert "in double quotes, without comments and without a comma before a" in found.hint


@pytest.mark.parametrize("text", ['{"a":1,}', '["a",]'])
def test_a_comma_before_a_closing_bracket_is_no_json(text: str) -> None:
    # Python 3.13 reports the comma, older ones the bracket
    assert problem(parse_json(text, "f")) in (
        f"file.syntax 1:{len(text) - 1}",
        f"file.syntax 1:{len(text)}",
    )


def test_json_duplicates() -> None:
    (found,) = parse_json('{"a": {"b": 1,\n "\\u0062": 2}}', "f").problems
    assert (found.code, str(found.where), found.why) == (
        "file.duplicate-key",
        "f:2:2",
        "it is first given at f:1:8",
    )


INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
JSON_SCALARS = (
    st.none() | st.booleans() | INT64 | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
JSON_VALUES = st.recursive(
    JSON_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=50), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 0, 3, "\t"]))
def test_json_agrees_with_the_library(value: Any, ascii_only: bool, indent: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(plain_value(only(parse_json(text, "f")))) == repr(json.loads(text))


@given(st.text(alphabet='{}[]",:\\u0123eE+-.truefalsn \n\t\x00é', max_size=12))
def test_json_refuses_what_the_library_refuses(text: str) -> None:
    parsed = parse_json(text, "f")
    try:
        json.loads(text, parse_constant=lambda _: pytest.fail("not generated"))
    except ValueError:
        assert parsed.problems
    else:
        assert all(found.code == "file.duplicate-key" for found in parsed.problems)


@given(JSON_VALUES.filter(lambda value: isinstance(value, dict)))
def test_yaml_reads_json_written_in_ascii(value: Any) -> None:
    """Not that YAML is JSON; but what both can say, both readers read alike."""
    text = json.dumps(value)
    if "\\ud" not in text.lower() and "\\/" not in text:
        yaml_node = only(parse_yaml(text, "f"))
        assert repr(plain_value(yaml_node)) == repr(plain_value(only(parse_json(text, "f"))))


PROPERTIES = json.loads(Path(__file__).with_name("properties.json").read_text())


@pytest.mark.parametrize("sample", PROPERTIES, ids=lambda sample: repr(sample["text"]))
def test_properties(sample: dict[str, Any]) -> None:
    assert texts(only(parse_properties(sample["text"], "f"))) == sample["expected"]


def test_properties_duplicates_and_bad_escapes() -> None:
    parsed = parse_properties("a=1\n\\u0061: 2\nb=\\uzz\nc\\u=\nd=\\ud83d\n", "f")
    assert sorted(f"{found.code} {found.where}" for found in parsed.problems) == [
        "file.duplicate-key f:2:1",
        "file.syntax f:3:3",
        "file.syntax f:4:1",
        "file.syntax f:5:3",
    ]


def as_properties(mapping: dict[str, str]) -> str:
    """As java.util.Properties.store writes them."""

    def escape(text: str, *, key: bool) -> str:
        parts = []
        for index, character in enumerate(text):
            if character in "\t\n\r\f":
                parts.append("\\" + "tnrf"["\t\n\r\f".index(character)])
            elif character in "=:#!\\" or (character == " " and (key or index == 0)):
                parts.append("\\" + character)
            elif " " <= character <= "~":
                parts.append(character)
            else:
                units = character.encode("utf-16-be")
                parts += [f"\\u{units[i] << 8 | units[i + 1]:04X}" for i in range(0, len(units), 2)]
        return "".join(parts)

    return "".join(f"{escape(k, key=True)}={escape(v, key=False)}\n" for k, v in mapping.items())


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_properties_round_trip(mapping: dict[str, str]) -> None:
    assert texts(only(parse_properties(as_properties(mapping), "f"))) == mapping


@given(st.text(alphabet="ab=: #!\\u0\n\r\t\f", max_size=20), st.text(max_size=20))
def test_no_text_breaks_a_reader(text: str, other: str) -> None:
    for parse in (parse_yaml, parse_json, parse_properties):
        for found in (parse(text, "f"), parse(other, "f")):
            assert found.documents or found.problems or parse is parse_yaml
