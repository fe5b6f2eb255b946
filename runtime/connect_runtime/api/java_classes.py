"""Translates Java's named character sets in regular expressions to Python.

Each is a piece for inside the brackets of a Python class. Java's are ASCII only unless they say
Unicode (`java.util.regex.Pattern`, "Predefined character classes" and following).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final

LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"

# A letter after the backslash. Its upper case is the complement.
ESCAPED: Final = {
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


def property_class(name: str) -> str | None:
    r"""Returns the characters of `\p{name}`; None if that property is not supported."""
    if name in _POSIX:
        return _POSIX[name]
    found = _UNICODE.fullmatch(name)
    if found is None or found["category"] not in _CATEGORIES:
        return None
    return _category(found["category"])


@cache
def _category(name: str) -> str:
    wanted = ("Lu", "Ll", "Lt") if name == "LC" else (name,)
    pieces, first = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(wanted)
        if inside and first is None:
            first = code
        elif not inside and first is not None:
            pieces.append(f"\\U{first:08x}-\\U{code - 1:08x}")
            first = None
    return "".join(pieces)
