"""Java's regular expressions in Python, compared with Java's own."""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from connect_runtime.java import regex as java_regex
from connect_runtime.java.regex import InvalidPattern

CASES = [
    (r"orders-\d+", {"orders-12": True, "orders-d": False, "orders-": False}),
    (r"(?i)Orders", {"ORDERS": True, "ordersx": False}),
    (r"(?!internal-).*", {"orders": True, "internal-orders": False}),
    (r"(?<!a)b|(?<=a)b", {"b": True, "ab": False}),
    (r"a|ab", {"ab": True}),
    (r"a(?i)b|c", {"aB": True, "AB": False, "C": True}),
    (r"(a(?i)b)c", {"aBc": True, "aBC": False}),
    (r"(?i)a(?-i)b", {"Ab": True, "AB": False}),
    (r"(?i:a)b", {"Ab": True, "AB": False}),
    (r"(?i)é", {"É": False}),
    (r"(?iu)é", {"É": True}),
    (r"(?x) a b # a comment", {"ab": True}),
    (r"(?x)[a b]\ ", {"a ": True, "  ": False}),
    (r"\w+\s\D", {"a_1 x": True, "é x": False, "a 1": False}),
    (r"\bé\b|\ba\b", {"a": True}),
    (r"\Qa.b*\E+", {"a.b*": True, "a.b***": True, "axb": False}),
    (r"\Q", {"": True}),
    (r"[a-z&&[^bc]]+", {"ad": True, "ab": False}),
    (r"[a-d&&[c-z]x]", {"c": True, "x": False}),
    (r"[^a-c[x]]", {"a": False, "x": False, "q": True}),
    (r"[\w&&[^\d_]]+", {"abc": True, "a1": False}),
    (r"[]a]", {"]": True}),
    (r"[\Qa-z\E]", {"-": True, "m": False}),
    (r"[a-]|[-b]|[c^]", {"-": True, "^": True}),
    (r"\p{Alpha}\p{Punct}\p{XDigit}", {"a~F": True, "é~F": False}),
    (r"\p{L}\pN\P{Lu}", {"é1x": True, "11x": False, "a1X": False}),
    (r"a*+a", {"aaa": False}),
    (r"(?>a|ab)c", {"abc": False, "ac": True}),
    (r"(a|b)*+x{2,3}?", {"abxx": True, "abx": False}),
    (r"(?<name>a|b)\k<name>", {"aa": True, "ab": False}),
    (r"(a)\11", {"aa1": True}),
    (r"^a$", {"a": True, "a\n": False}),
    (r"\Aa\z|b\Z", {"a": True, "b": True}),
    (r"(?m)a$\n^b", {"a\nb": True}),
    (r".", {"a": True, "\n": False, "\u2028": False}),
    (r"(?s).(?-s).", {"\na": True, "\n\n": False}),
    (r"(?d).", {"\r": True, "\n": False}),
    (r"\x41\x{42}\u0043\0104\t\cA\N{DIGIT ONE}", {"ABCD\t\x011": True}),
    (r"a\.b\-c\_d#", {"a.b-c_d#": True}),
    (r"\R\h\v", {"\r\n \n": True, "\n \u2028": True}),
    (r"]}a]", {"]}a]": True}),
]

MISTAKES = (
    "[", "[a", "a[b[c]", "(", ")", "*a", "a**", "a|+", "a{x", "a{3,2}", "[z-a]", r"\y", "(?z)a",
    "(?<1>a)", "(?<n>a)(?<n>b)", r"\p{Foo}",
)  # fmt: skip

# Java knows these, and they are refused here.
UNSUPPORTED = (
    r"(?U)\w",
    r"\b{g}",
    r"\X",
    r"\G",
    r"\1(a)",
    r"(?<=a*)b",
    r"\p{IsLatin}",
    r"\p{javaLowerCase}",
    r"[a&&]",
    # more than 1 MiB for Python, which would take minutes for a pattern of 100 kB
    r"(\p{L})" * 80,
)


class Java:
    """java.util.regex.Pattern of a JVM."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._pattern = gateway.jvm.java.util.regex.Pattern

    def matches(self, pattern: str, text: str) -> bool | None:
        """None if the pattern is invalid."""
        try:
            return bool(self._pattern.matches(pattern, text))
        except Py4JJavaError:
            return None

    def mistake(self, pattern: str) -> str:
        with pytest.raises(Py4JJavaError) as raised:
            self._pattern.compile(pattern)
        text: str = raised.value.java_exception.getMessage()
        return text


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    jar = next(Path(pyspark.__file__).parent.glob("jars/py4j-*.jar"))
    gateway: Any = JavaGateway.launch_gateway(jarpath=str(jar), die_on_exit=True)
    try:
        yield Java(gateway)
    finally:
        gateway.shutdown()


@pytest.mark.parametrize("pattern", UNSUPPORTED)
def test_what_python_cannot_say_is_refused(java: Java, pattern: str) -> None:
    assert java.matches(pattern, "a") is not None
    with pytest.raises(InvalidPattern, match=r"(?i)not supported here"):
        java_regex.compile(pattern)


@pytest.mark.parametrize(("pattern", "expected"), CASES, ids=[case[0] for case in CASES])
def test_whole_names_match_as_in_java(java: Java, pattern: str, expected: dict[str, bool]) -> None:
    compiled = java_regex.compile(pattern)
    assert {text: bool(compiled.fullmatch(text)) for text in expected} == expected
    assert {text: java.matches(pattern, text) for text in expected} == expected


@pytest.mark.parametrize("pattern", MISTAKES)
def test_mistakes_are_told_in_javas_words(java: Java, pattern: str) -> None:
    with pytest.raises(InvalidPattern) as raised:
        java_regex.compile(pattern)
    assert str(raised.value) == java.mistake(pattern)


_PIECES = st.sampled_from(
    [
        *"ab-1.^$|()[]{}*+?&",
        *(r"\d", r"\D", r"\w", r"\.", "[a-c]", "[^a]", "&&", "(?i)", "(?:", "(?=", "(?!", "(?>"),
        *(
            "(?<!",
            "{2}",
            "{0,1}",
            "{1,}+",
            "[a-z&&[^b]]",
            r"\Qa.\E",
            r"\pL",
            r"\1",
            "(?-i)",
            "(?s:",
        ),
    ]
)


@given(
    pieces=st.lists(_PIECES, max_size=8),
    texts=st.lists(st.text(alphabet="abAB1-.&" + string.whitespace[:1], max_size=4), max_size=4),
)
def test_what_is_translated_matches_as_in_java(
    java: Java, pieces: list[str], texts: list[str]
) -> None:
    pattern = "".join(pieces)
    try:
        compiled = java_regex.compile(pattern)
    except InvalidPattern as refused:
        if "not supported here" not in str(refused).lower():
            assert java.matches(pattern, "") is None, (pattern, str(refused))
        return
    for text in texts:
        assert java.matches(pattern, text) is bool(compiled.fullmatch(text)), (pattern, text)
