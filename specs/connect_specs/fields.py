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
    diagnostics. In their texts `noun` names such a map, and `owner` this one where a field is
    missing. An omitted or invalid map has no fields, and none is missing.
    """

    def __init__(
        self,
        node: Map | None,
        names: Collection[str] | None,
        problems: list[Diagnostic],
        *,
        code: str,
        noun: str,
        owner: str = "",
    ) -> None:
        self.node = node
        self.problems = problems
        self._code = code
        self._owner = owner or noun
        for key, _ in node.entries if node else ():
            if names is not None and key.text not in names:
                hint = did_you_mean(key.text, names)
                message = f"{noun} has no field {key.text!r}"
                self.report("unknown-field", key.location, message, hint)

    def get(self, field: str, *, required: bool = False) -> Node | None:
        """Returns the value of a field as it is written."""
        value = None if self.node is None else self.node.get(field)
        if value is None and self.node is not None and required:
            message = f"{self._owner} has no {field!r}"
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
        return None if node is None else as_text(node, field, self._code, self.problems)

    def word(
        self,
        field: str,
        words: Collection[Word],
        *,
        required: bool = False,
        code: str = "bad-value",
        message: str = "{field!r} cannot be {text!r}",
        hint: str = "",
    ) -> Word | None:
        """Returns one of these words; `code`, `message` and `hint` are for another word."""
        text, node = self.text(field, required=required), self.get(field)
        word = next((word for word in words if word == text), None)
        if word is None and text is not None and node is not None:
            problem = message.format(field=field, text=text)
            self.report(code, node.location, problem, hint or did_you_mean(text, words))
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

    def count(self, field: str) -> int | None:
        """Returns a whole number of at least 0, written without quotes."""
        node = self.get(field)
        if node is None:
            return None
        value = _typed(node)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        message = f"{field!r} must be a whole number of at least 0"
        self.report("bad-value", node.location, message, f"write {field}: 10, without quotes")
        return None

    def texts(self, field: str) -> tuple[Scalar, ...]:
        """Returns the non-empty strings of a list."""
        node = self.get(field)
        return () if node is None else as_texts(node, field, self._code, self.problems)

    def map(self, field: str, *, required: bool = False) -> Map | None:
        """Returns a map."""
        node = self.get(field, required=required)
        return None if node is None else as_map(node, field, self._code, self.problems)

    def inner(
        self, field: str, names: Collection[str] | None, *, noun: str = "", required: bool = False
    ) -> Fields:
        """Returns the fields of the map in a field."""
        node = self.map(field, required=required)
        return Fields(node, names, self.problems, code=self._code, noun=noun or field)

    def report(
        self, code: str, location: Location, message: str, hint: str, *, why: str = ""
    ) -> None:
        """Adds a mistake."""
        self.problems.append(Diagnostic(f"{self._code}.{code}", message, location, why, hint))


def value_kind(node: Node) -> str:
    """Returns the kind of a node in a diagnostic's words."""
    if isinstance(node, Map):
        return "a map"
    if isinstance(node, Sequence):
        return "a list"
    return "null" if is_null(node) else "a single value"


def as_text(node: Node, field: str, code: str, problems: list[Diagnostic]) -> str | None:
    """Returns a non-empty string, as written."""
    if isinstance(node, Scalar) and not is_null(node) and node.text:
        return node.text
    kind = "empty" if isinstance(node, Scalar) else value_kind(node)
    message = f"{field!r} must be text, and is {kind}"
    hint = "write one text, in quotes if it would be null or a map without them"
    problems.append(Diagnostic(f"{code}.bad-value", message, node.location, hint=hint))
    return None


def as_texts(node: Node, field: str, code: str, problems: list[Diagnostic]) -> tuple[Scalar, ...]:
    """Returns the non-empty strings of a list."""
    if isinstance(node, Sequence):
        texts = ((item, as_text(item, f"{field}[]", code, problems)) for item in node.items)
        return tuple(item for item, text in texts if text and isinstance(item, Scalar))
    message = f"{field!r} must be a list, and is {value_kind(node)}"
    hint = f"write {field}: [first, second]"
    problems.append(Diagnostic(f"{code}.bad-value", message, node.location, hint=hint))
    return ()


def as_map(node: Node, field: str, code: str, problems: list[Diagnostic]) -> Map | None:
    """Returns the node if it is a map."""
    if isinstance(node, Map):
        return node
    message = f"{field!r} must be a map, and is {value_kind(node)}"
    hint = "write name: value, with each name on a line of its own or in braces"
    problems.append(Diagnostic(f"{code}.bad-value", message, node.location, hint=hint))
    return None


def _typed(node: Node) -> object:
    try:
        return typed(node) if isinstance(node, Scalar) else None
    except ValueError:
        return None
