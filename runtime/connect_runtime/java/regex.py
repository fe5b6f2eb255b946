"""Translates Java's regular expressions to Python's: `topics.regex` and others are Java
expressions.

Follows java.util.regex.Pattern, of Java 9 and later. An expression that Python lacks is refused
with a reason, never misinterpreted. Use a compiled pattern with `fullmatch`, like Java's `matches`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from connect_runtime.java.regex_characters import (
    ANY,
    END,
    LINE_ENDS,
    CharacterSet,
    InvalidPattern,
    Scanner,
    UnsupportedPattern,
)

__all__ = ["InvalidPattern", "UnsupportedPattern", "compile"]

_ONE_LINE_END: Final = rf"(?:\r\n|[{LINE_ENDS}])"
_QUOTED: Final = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.|[^\\]+|\\\Z", re.DOTALL)
_MOST: Final = 2**31 - 1
# Of the translation: \p{L} is 13 000 characters there, and each takes Python some time
_LONGEST: Final = 1 << 20


def compile(pattern: str) -> re.Pattern[str]:
    """Compiles the Java expression as Python's, for `fullmatch`. Raises InvalidPattern."""
    parser = _Parser(_without_quotes(pattern))
    try:
        return re.compile(parser.parse(), re.ASCII)
    except (re.error, OverflowError) as error:
        raise UnsupportedPattern(f"Not supported here: {error}\n{pattern}") from None
    except RecursionError:
        raise UnsupportedPattern(f"Not supported here: nested too deeply\n{pattern}") from None


def _without_quotes(pattern: str) -> str:
    r"""Replaces text between \Q and \E by the same text with special characters escaped."""

    def plain(match: re.Match[str]) -> str:
        quoted = match["quoted"]
        if quoted is None:
            return match[0]
        return "".join(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in quoted)

    return _QUOTED.sub(plain, pattern)


@dataclass(frozen=True, slots=True)
class _Flags:
    """The flags in effect at one place. `i` and `u` are left to Python."""

    i: bool = False
    u: bool = False
    m: bool = False
    s: bool = False
    d: bool = False
    x: bool = False

    def scope(self) -> str:
        """Returns the beginning of a Python group with these flags."""
        return f"(?{'u' if self.i and self.u else 'a'}{'i' if self.i else '-i'}:"


class _Parser(Scanner):
    """Translates from left to right."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._flags = _Flags()
        self._groups = 0
        self._names: set[str] = set()
        self._length = 0

    @property
    def _ignores_blanks(self) -> bool:
        return self._flags.x

    def parse(self) -> str:
        translated = self._alternatives()
        if self._peek() == ")":
            raise self._error("Unmatched closing ')'", self._at - 1)
        return translated

    # alternatives, sequences and groups

    def _alternatives(self) -> str:
        """Reads up to the end of the group. Flags that are set in it hold to its end."""
        outer = self._flags
        translated: list[str] = []
        scopes = 0
        while (ch := self._peek()) not in (END, ")"):
            if ch == "|":
                self._at += 1
                translated.append(")" * scopes + "|")
                scopes = int(self._flags.scope() != outer.scope())
                translated.extend([self._flags.scope()] * scopes)
            elif ch in "*+?":
                raise self._error(f"Dangling meta character '{ch}'", self._at)
            elif ch == "(" and (flags := self._inline_flags()) is not None:
                if flags.scope() != self._flags.scope():
                    translated.append(flags.scope())
                    scopes += 1
                self._flags = flags
            else:
                atom = self._atom(ch)
                # a group's own atoms were counted
                self._length += len(atom) if ch != "(" else 0
                if self._length > _LONGEST:
                    raise UnsupportedPattern("Not supported here: the expression is too long")
                translated.append(atom + self._quantifier())
        self._flags = outer
        return "".join(translated) + ")" * scopes

    def _inline_flags(self) -> _Flags | None:
        """Reads flags that are not a group's own, such as (?i); None if something else follows."""
        form = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?\)")
        if form.match(self._pattern, self._at) is None:
            return None
        self._at += 2
        flags = self._read_flags()
        self._at += 1
        return flags

    def _read_flags(self) -> _Flags:
        """Reads flags up to `:` or `)`."""
        flags, on = self._flags, True
        while (ch := self._raw()) not in (":", ")"):
            if ch == "-" and on:
                on = False
            elif ch == "U":
                raise self._unsupported("The flag U", self._at)
            elif ch and ch in "iumsdx":
                flags = replace(flags, **{ch: on})
            else:
                raise self._error("Unknown inline modifier", self._at)
            self._at += 1
        return flags

    def _group(self) -> str:
        """Reads a group from its `(` to its `)`."""
        self._at += 1
        outer, opening = self._flags, "("
        pattern = self._pattern[self._at :]
        for start in ("?:", "?=", "?!", "?>", "?<=", "?<!"):
            if pattern.startswith(start):
                self._at += len(start)
                opening = f"({start}"
                break
        else:
            if pattern.startswith("?<"):
                opening = f"(?P<{self._new_name()}>"
                self._groups += 1
            elif pattern.startswith("?"):
                self._at += 1
                self._flags = self._read_flags()
                self._at += 1
                opening = self._flags.scope()
            else:
                self._groups += 1
        inside = self._alternatives()
        self._flags = outer
        if self._peek() != ")":
            raise self._error("Unclosed group", self._at)
        self._at += 1
        return f"{opening}{inside})"

    def _new_name(self) -> str:
        self._at += 2
        name = self._name()
        if name in self._names:
            text = f"Named capturing group <{name}> is already defined"
            raise self._error(text, self._at - 1)
        self._names.add(name)
        return name

    def _name(self) -> str:
        match = re.compile(r"[a-zA-Z][a-zA-Z0-9]*").match(self._pattern, self._at)
        if match is None:
            raise self._error("capturing group name does not start with a Latin letter", self._at)
        self._at = match.end()
        if self._raw() != ">":
            text = "named capturing group is missing trailing '>'"
            raise self._error(text, self._at)
        self._at += 1
        return match[0]

    def _quantifier(self) -> str:
        ch = self._peek()
        if ch == "{":
            match = re.compile(r"\{(\d+)(,(\d*))?").match(self._pattern, self._at)
            if match is None:
                raise self._error("Illegal repetition", self._at + 1)
            self._at = match.end()
            least, most = int(match[1]), int(match[3] or match[1])
            if self._raw() != "}":
                raise self._error("Unclosed counted closure", self._at)
            if most < least or most > _MOST:
                raise self._error("Illegal repetition range", self._at)
            self._at += 1
            times = match[0] + "}"
        elif ch and ch in "*+?":
            self._at += 1
            times = ch
        else:
            return ""
        kind = self._peek()
        if kind and kind in "?+":
            self._at += 1
            return times + kind
        return times

    # single characters and positions

    def _atom(self, ch: str) -> str:
        if ch == "(":
            return self._group()
        if ch == "[":
            return self._class().text
        if ch == "\\":
            return self._escaped_atom()
        if ch == "{":
            # Java takes this for a repetition of nothing, if it is well-formed
            self._quantifier()
            raise self._unsupported("A repetition of nothing", self._at - 1)
        self._at += 1
        if ch == ".":
            ends = r"\n" if self._flags.d else LINE_ENDS
            return ANY if self._flags.s else f"[^{ends}]"
        if ch == "^":
            return self._line_start() if self._flags.m else r"(?:\A)"
        if ch == "$":
            return self._line_end() if self._flags.m else self._before_end()
        return re.escape(ch)

    def _before_end(self) -> str:
        end = r"\n" if self._flags.d else _ONE_LINE_END
        return rf"(?={end}?\Z)"

    def _line_start(self) -> str:
        ends = r"\n" if self._flags.d else r"\n\x85\u2028\u2029"
        lone = "" if self._flags.d else r"|(?<=\r)(?!\n)(?!\Z)"
        return rf"(?:\A|(?<=[{ends}])(?!\Z){lone})"

    def _line_end(self) -> str:
        if self._flags.d:
            return r"(?=\n|\Z)"
        return r"(?=\r|(?<!\r)\n|[\x85\u2028\u2029]|\Z)"

    def _escaped_atom(self) -> str:
        letter = self._pattern[self._at + 1 : self._at + 2]
        places = {"A": r"(?:\A)", "z": r"(?:\Z)", "Z": self._before_end()}
        if letter in places:
            self._at += 2
            return places[letter]
        if letter in ("b", "B"):
            self._at += 2
            if self._raw() == "{":
                raise self._unsupported(r"\b{g}", self._at)
            return rf"(?:\{letter})"
        if letter == "R":
            self._at += 2
            return rf"(?>\r\n|[{LINE_ENDS}\x0b\f])"
        if letter in ("G", "X"):
            raise self._unsupported(rf"\{letter}", self._at + 1)
        if letter == "k":
            return self._named_reference()
        if letter.isdigit() and letter != "0":
            return self._reference()
        escape = self._escape()
        return escape.text if isinstance(escape, CharacterSet) else re.escape(escape)

    def _named_reference(self) -> str:
        self._at += 2
        if self._raw() != "<":
            text = r"\k is not followed by '<' for named capturing group"
            raise self._error(text, self._at)
        self._at += 1
        name = self._name()
        if name not in self._names:
            text = f"named capturing group <{name}> does not exist"
            raise self._error(text, self._at - 1)
        return f"(?P={name})"

    def _reference(self) -> str:
        """Reads a back reference: as many digits as there are groups so far."""
        number = int(self._pattern[self._at + 1])
        self._at += 2
        if number > self._groups:
            raise self._unsupported(rf"\{number} before its group", self._at - 1)
        while (digit := self._raw()).isdigit() and number * 10 + int(digit) <= self._groups:
            number = number * 10 + int(digit)
            self._at += 1
        return rf"(?:\{number})"
