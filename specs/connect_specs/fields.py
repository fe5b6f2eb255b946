"""Reads the fields of maps that have a fixed set of them: project, spec and test documents.

Mistakes are added to a list of problems, so that one pass finds all of them, also those across
fields of which some are wrong; a value that cannot be read is None. pydantic checks across fields
only once each of them is right, and its import alone takes as long as reading 30 specs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from typing import Final, TypeVar

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.documents import Map, Node, Scalar, Sequence, is_null, typed
from connect_specs.plain_text import listed

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

# Minimum similarity of a typo to the word that was meant
_TYPO: Final = 0.8
_LISTED_WORDS: Final = 20


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Returns a hint with the closest known word, or with the first ones if none is close."""
    words = sorted(known)
    lower = {known_word.lower(): known_word for known_word in words}
    close = get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)
    if close:
        return f"did you mean {lower[close[0]]!r}?"
    return f"known here: {listed(words, _LISTED_WORDS)}"


def typo_of(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that this one is probably a typo of, or None."""
    return next(iter(get_close_matches(word, list(known), 1, _TYPO)), None)


class Fields:
    """The fields of one map, read by their types.

    Fields other than `names` are mistakes, unless it is None. `code` begins the codes of
    diagnostics, and `noun` names the map in their texts. An omitted or invalid map has no fields,
    and none is missing.
    """

    def __init__(
        self,
        node: Node | None,
        names: Collection[str] | None,
        problems: list[Diagnostic],
        *,
        code: str,
        noun: str,
    ) -> None:
        self.node = node if isinstance(node, Map) else None
        self.problems = problems
        self._code = code
        self._noun = noun
        if node is not None and self.node is None:
            message = f"{noun} must be a map, and is {value_kind(node)}"
            hint = "write name: value, with each name on a line of its own or in braces"
            self.report("bad-value", node.location, message, hint)
        for key, _ in self.node.entries if self.node else ():
            if names is not None and key.text not in names:
                hint = did_you_mean(key.text, names)
                message = f"{noun} has no field {key.text!r}"
                self.report("unknown-field", key.location, message, hint)

    def get(self, field: str, *, required: bool = False) -> Node | None:
        """Returns the value of a field as it is written."""
        value = None if self.node is None else self.node.get(field)
        if value is None and self.node is not None and required:
            message = f"{self._noun} has no {field!r}"
            self.report("missing-field", self.node.location, message, f"add '{field}:'")
        return value

    def location(self, field: str) -> Location:
        """Returns the location of the field's key; of the map if it has none."""
        assert self.node is not None, "a field is looked for only in a map"
        keys = (key.location for key, _ in self.node.entries if key.text == field)
        return next(keys, self.node.location)

    def read(
        self,
        field: str,
        read: Callable[[Node, list[Diagnostic]], T | None],
        *,
        required: bool = False,
    ) -> T | None:
        """Returns the value of a field as `read` returns it."""
        node = self.get(field, required=required)
        return None if node is None else read(node, self.problems)

    def text(self, field: str, *, required: bool = False) -> str | None:
        """Returns a non-empty string, as written."""
        node = self.get(field, required=required)
        return None if node is None else self._text(node, field)

    def _text(self, node: Node, field: str) -> str | None:
        if isinstance(node, Scalar) and not is_null(node) and node.text:
            return node.text
        kind = "empty" if isinstance(node, Scalar) else value_kind(node)
        hint = "write one text, in quotes if it would be null or a map without them"
        self.report("bad-value", node.location, f"{field!r} must be text, and is {kind}", hint)
        return None

    def word(
        self,
        field: str,
        words: Collection[Word],
        *,
        required: bool = False,
        code: str = "bad-value",
    ) -> Word | None:
        """Returns one of these words; `code` is for another word."""
        text, node = self.text(field, required=required), self.get(field)
        word = next((word for word in words if word == text), None)
        if word is None and text is not None and node is not None:
            message = f"{field!r} cannot be {text!r}"
            self.report(code, node.location, message, did_you_mean(text, words))
        return word

    def flag(self, field: str, *, if_false: str = "") -> bool | None:
        """Returns true or false, written without quotes; `if_false` is a hint where only true is
        allowed."""
        node = self.get(field)
        if node is None:
            return None
        value = _typed(node)
        if not isinstance(value, bool):
            hint = "write true or false, without quotes"
            self.report("bad-value", node.location, f"{field!r} must be true or false", hint)
            return None
        if if_false and not value:
            self.report("bad-value", node.location, f"{field!r} can only be true", if_false)
        return value

    def count(
        self, field: str, most: int | None = None, *, code: str = "bad-value", hint: str = ""
    ) -> int | None:
        """Returns a whole number of at least 0 and at most `most`, written without quotes."""
        node = self.get(field)
        if node is None:
            return None
        value = _typed(node)
        # True is an int as well
        if type(value) is int and 0 <= value <= (value if most is None else most):
            return value
        bounds = "of at least 0" if most is None else f"from 0 to {most}"
        if isinstance(node, Scalar) and not node.plain and node.text.isdecimal():
            hint = "remove the quotes"
        message = f"{field!r} must be a whole number {bounds}"
        self.report(code, node.location, message, hint or f"write a number, as in {field}: 10")
        return None

    def texts(self, field: str) -> tuple[Scalar, ...]:
        """Returns the non-empty strings of a list."""
        items = self.items(field, f"write {field}: [first, second]")
        texts = ((item, self._text(item, f"{field}[]")) for item in items)
        return tuple(item for item, text in texts if text and isinstance(item, Scalar))

    def items(self, field: str, hint: str, *, required: bool = False) -> tuple[Node, ...]:
        """Returns the items of a list; `hint` is for anything else."""
        node = self.get(field, required=required)
        if isinstance(node, Sequence):
            return node.items
        if node is not None:
            message = f"{field!r} must be a list, and is {value_kind(node)}"
            self.report("bad-value", node.location, message, hint)
        return ()

    def inner(
        self, field: str, names: Collection[str] | None, *, noun: str = "", required: bool = False
    ) -> Fields:
        """Returns the fields of the map in a field."""
        node = self.get(field, required=required)
        return Fields(node, names, self.problems, code=self._code, noun=noun or field)

    def report(
        self, code: str, place: str | Location, message: str, hint: str, *, why: str = ""
    ) -> None:
        """Adds a mistake in a place, or at the key of a field."""
        location = self.location(place) if isinstance(place, str) else place
        self.problems.append(Diagnostic(f"{self._code}.{code}", message, location, why, hint))


def value_kind(node: Node) -> str:
    """Returns the kind of a node in a diagnostic's words."""
    if isinstance(node, Map):
        return "a map"
    if isinstance(node, Sequence):
        return "a list"
    return "null" if is_null(node) else "a single value"


def _typed(node: Node) -> object:
    try:
        return typed(node) if isinstance(node, Scalar) else None
    except ValueError:
        return None
