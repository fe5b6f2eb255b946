"""Parses characters and character sets of a Java regular expression, inside and outside brackets.

A set becomes an expression for one character: Python's classes know neither `&&` nor classes within
classes, so those become alternatives and look-aheads.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from connect_runtime.api.java_classes import ESCAPED, LINE_ENDS, property_class

END: Final = ""
ANY: Final = r"[\s\S]"
_CONTROL: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class InvalidPattern(ValueError):
    """An invalid or unsupported regular expression; the text is like Java's."""


class UnsupportedPattern(InvalidPattern):
    """An expression that Java accepts, and Python has no equal for."""


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of characters: `pieces` for inside brackets, or any expression for one character."""

    pieces: str
    negated: bool = False
    expression: str | None = None

    @property
    def text(self) -> str:
        if self.expression is not None:
            return self.expression
        return f"[{'^' if self.negated else ''}{self.pieces}]"

    def union(self, other: CharacterSet) -> CharacterSet:
        if self.is_plain and other.is_plain:
            return CharacterSet(self.pieces + other.pieces)
        return CharacterSet("", expression=f"(?:{self.text}|{other.text})")

    def intersection(self, other: CharacterSet) -> CharacterSet:
        return CharacterSet("", expression=f"(?:(?={self.text}){other.text})")

    def negation(self) -> CharacterSet:
        if self.expression is None:
            return CharacterSet(self.pieces, not self.negated)
        return CharacterSet("", expression=f"(?:(?!{self.text}){ANY})")

    @property
    def is_plain(self) -> bool:
        return self.expression is None and not self.negated


class Scanner:
    """Reads a pattern from left to right. `_at` is the next character's position."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def _escape(self) -> str | CharacterSet:
        """Reads an escape: one character, or a set of them."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        self._at += 2
        if not letter:
            raise self._error("Unexpected internal error", self._at - 1)
        if letter in ("p", "P"):
            named = self._property()
            return named.negation() if letter == "P" else named
        if letter.lower() in ESCAPED:
            return CharacterSet(ESCAPED[letter.lower()], negated=letter.isupper())
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter in "0cxuN":
            return self._coded(letter)
        if letter.isascii() and letter.isalnum():
            raise self._error("Illegal/unsupported escape sequence", self._at - 1)
        return letter

    def _property(self) -> CharacterSet:
        r"""Reads what follows \p."""
        found = re.compile(r"\{([^}]*)\}|([^{])").match(self._pattern, self._at)
        if found is None:
            raise self._error("Unclosed character family", len(self._pattern) - 1)
        self._at = found.end()
        name = found[1] if found[2] is None else found[2]
        pieces = property_class(name)
        if pieces is None:
            known = name.startswith(("Is", "In", "java")) or "=" in name
            if known:
                raise self._unsupported(f"The character property {{{name}}}", self._at - 1)
            raise self._error(f"Unknown character property name {{{name}}}", self._at - 1)
        return CharacterSet(pieces)

    def _coded(self, letter: str) -> str:
        kinds = {
            "0": (r"([0-3][0-7]{2}|[0-7]{1,2})", "octal escape"),
            "c": (r"(?s:(.))", "control escape"),
            "x": (r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}", "hexadecimal escape"),
            "u": (r"([0-9a-fA-F]{4})", "Unicode escape"),
            "N": (r"\{([^}]+)\}", "character name escape"),
        }
        form, what = kinds[letter]
        found = re.compile(form).match(self._pattern, self._at)
        if found is None:
            raise self._error(f"Illegal {what} sequence", self._at)
        self._at = found.end()
        digits = found[found.lastindex or 1]
        try:
            if letter == "N":
                return unicodedata.lookup(digits)
            if letter == "c":
                return chr(ord(digits) ^ 64)
            return chr(int(digits, 8 if letter == "0" else 16))
        except (ValueError, KeyError, OverflowError):
            raise self._error(f"Illegal {what} sequence", self._at - 1) from None

    def _class(self) -> CharacterSet:
        """Reads a class from its `[` to its `]`."""
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        found = self._members()
        self._at += 1
        return found.negation() if negated else found

    def _members(self) -> CharacterSet:
        """Reads the union up to `]`. What follows `&&` also reaches up to there."""
        found: CharacterSet | None = None
        while True:
            ch = self._peek()
            if ch == END:
                raise self._error("Unclosed character class", len(self._pattern) - 1)
            if ch == "]" and found is not None:
                return found
            if ch == "&" and self._pattern.startswith("&&", self._at):
                right = self._right_side()
                found = right if found is None else found.intersection(right)
                continue
            member = self._class() if ch == "[" else self._member()
            found = member if found is None else found.union(member)

    def _right_side(self) -> CharacterSet:
        self._at += 2
        if self._peek() in ("]", "&"):
            raise self._unsupported("&& without a right side", self._at)
        return self._members()

    def _member(self) -> CharacterSet:
        """Reads one character, a range, or an escape."""
        first = self._one()
        if isinstance(first, CharacterSet):
            return first
        if self._peek() != "-" or self._pattern[self._at + 1 : self._at + 2] in ("[", "]", ""):
            return CharacterSet(re.escape(first))
        self._at += 1
        last = self._one()
        if isinstance(last, CharacterSet) or last < first:
            raise self._error("Illegal character range", self._at - 1)
        return CharacterSet(f"{re.escape(first)}-{re.escape(last)}")

    def _one(self) -> str | CharacterSet:
        ch = self._peek()
        if ch == END:
            raise self._error("Unclosed character class", len(self._pattern) - 1)
        if ch == "\\":
            return self._escape()
        self._at += 1
        return ch

    # reading

    @property
    def _ignores_blanks(self) -> bool:
        """Whether blanks and comments are ignored here: the flag x."""
        return False

    def _raw(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _peek(self) -> str:
        """Returns the next character; with the flag x, ignores blanks and comments."""
        while self._ignores_blanks and (ch := self._raw()):
            if ch == "#":
                end = re.compile(rf"[{LINE_ENDS}]").search(self._pattern, self._at)
                self._at = end.end() if end else len(self._pattern)
            elif ch in " \t\n\x0b\f\r":
                self._at += 1
            else:
                break
        return self._raw()

    def _error(self, description: str, index: int) -> InvalidPattern:
        """Returns an error in the form of Java's PatternSyntaxException."""
        lines = [description, self._pattern]
        if index >= 0:
            lines[0] += f" near index {index}"
            if index < len(self._pattern):
                lines.append(" " * index + "^")
        return InvalidPattern("\n".join(lines))

    def _unsupported(self, what: str, at: int) -> UnsupportedPattern:
        return UnsupportedPattern(str(self._error(f"{what} is not supported here", at)))
