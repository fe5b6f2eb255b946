"""Parses characters and character sets of a Java regular expression, inside and outside brackets.

A set becomes an expression for one character: Python's classes have neither `&&` nor classes within
classes, so those become alternatives and look-aheads. A named set is text for inside the brackets
of a Python class. Java's are ASCII only unless they are called Unicode (`java.util.regex.Pattern`,
"Predefined character classes" and following).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import Final

END: Final = ""
ANY: Final = r"[\s\S]"
LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"

# by the letter after the backslash, whose upper case is the complement
_ESCAPED_SETS: Final = {
    "d": "0-9",
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "s": r" \t\n\x0b\f\r",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
    "w": "a-zA-Z_0-9",
}

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_CATEGORIES: Final = frozenset(
    "Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
    "Cc Cf Cs Co Cn L M N P S Z C LC".split()
)
_UNICODE: Final = re.compile(r"(?:Is|(?:general_category|gc)=)?(?P<category>[A-Z][A-Za-z]?)")
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

    def union(self, right: CharacterSet) -> CharacterSet:
        if self.is_plain and right.is_plain:
            return CharacterSet(self.pieces + right.pieces)
        return CharacterSet("", expression=f"(?:{self.text}|{right.text})")

    def intersection(self, right: CharacterSet) -> CharacterSet:
        return CharacterSet("", expression=f"(?:(?={self.text}){right.text})")

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
            characters = self._property()
            return characters.negation() if letter == "P" else characters
        if letter.lower() in _ESCAPED_SETS:
            return CharacterSet(_ESCAPED_SETS[letter.lower()], negated=letter.isupper())
        if letter in _CONTROL:
            return _CONTROL[letter]
        if letter in "0cxuN":
            return self._coded(letter)
        if letter.isascii() and letter.isalnum():
            raise self._error("Illegal/unsupported escape sequence", self._at - 1)
        return letter

    def _property(self) -> CharacterSet:
        r"""Reads the name after \p."""
        match = re.compile(r"\{([^}]*)\}|([^{])").match(self._pattern, self._at)
        if match is None:
            raise self._error("Unclosed character family", len(self._pattern) - 1)
        self._at = match.end()
        name = match[1] if match[2] is None else match[2]
        pieces = property_class(name)
        if pieces is None:
            if name.startswith(("Is", "In", "java")) or "=" in name:
                raise self._unsupported(f"The character property {{{name}}}", self._at - 1)
            raise self._error(f"Unknown character property name {{{name}}}", self._at - 1)
        return CharacterSet(pieces)

    def _coded(self, letter: str) -> str:
        forms = {
            "0": (r"([0-3][0-7]{2}|[0-7]{1,2})", "octal escape"),
            "c": (r"(?s:(.))", "control escape"),
            "x": (r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]+)\}", "hexadecimal escape"),
            "u": (r"([0-9a-fA-F]{4})", "Unicode escape"),
            "N": (r"\{([^}]+)\}", "character name escape"),
        }
        form, name = forms[letter]
        match = re.compile(form).match(self._pattern, self._at)
        if match is None:
            raise self._error(f"Illegal {name} sequence", self._at)
        self._at = match.end()
        digits = match[match.lastindex or 1]
        try:
            if letter == "N":
                return unicodedata.lookup(digits)
            if letter == "c":
                return chr(ord(digits) ^ 64)
            return chr(int(digits, 8 if letter == "0" else 16))
        except (ValueError, KeyError, OverflowError):
            raise self._error(f"Illegal {name} sequence", self._at - 1) from None

    def _class(self) -> CharacterSet:
        """Reads a class from its `[` to its `]`."""
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        members = self._members()
        self._at += 1
        return members.negation() if negated else members

    def _members(self) -> CharacterSet:
        """Reads the union up to `]`. The right side of `&&` also reaches up to there."""
        union: CharacterSet | None = None
        while True:
            ch = self._peek()
            if ch == END:
                raise self._error("Unclosed character class", len(self._pattern) - 1)
            if ch == "]" and union is not None:
                return union
            if ch == "&" and self._pattern.startswith("&&", self._at):
                right = self._right_side()
                union = right if union is None else union.intersection(right)
                continue
            member = self._class() if ch == "[" else self._member()
            union = member if union is None else union.union(member)

    def _right_side(self) -> CharacterSet:
        self._at += 2
        if self._peek() in ("]", "&"):
            raise self._unsupported("&& without a right side", self._at)
        return self._members()

    def _member(self) -> CharacterSet:
        """Reads one character, a range, or an escape."""
        first = self._character()
        if isinstance(first, CharacterSet):
            return first
        if self._peek() != "-" or self._pattern[self._at + 1 : self._at + 2] in ("[", "]", ""):
            return CharacterSet(re.escape(first))
        self._at += 1
        last = self._character()
        if isinstance(last, CharacterSet) or last < first:
            raise self._error("Illegal character range", self._at - 1)
        return CharacterSet(f"{re.escape(first)}-{re.escape(last)}")

    def _character(self) -> str | CharacterSet:
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
        """Returns True if blanks and comments are ignored here: the flag x."""
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

    def _unsupported(self, feature: str, at: int) -> UnsupportedPattern:
        return UnsupportedPattern(str(self._error(f"{feature} is not supported here", at)))


def property_class(name: str) -> str | None:
    r"""Returns the characters of `\p{name}`; None if that property is not supported."""
    if name in _POSIX:
        return _POSIX[name]
    match = _UNICODE.fullmatch(name)
    if match is None or match["category"] not in _CATEGORIES:
        return None
    return _category(match["category"])


@cache
def _category(name: str) -> str:
    prefixes = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    pieces, first = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(prefixes)
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            pieces.append(f"\\U{first:08x}-\\U{code - 1:08x}")
            first = None
    return "".join(pieces)
