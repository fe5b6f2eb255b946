"""Compiles the expressions of policies, and checks them before there is a plan.

The library compiles an expression and does not tell which fields it uses, so its text is read, too:
paths such as `change.keys`, the names that `exists` and its kin give to elements, and texts that a
path is compared with. A path that cannot be followed is accepted; evaluating the policy finds it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import cel

from connect_reconciler.policies.facts import NAMES, SAMPLE, SHAPES, Shape
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.fields import did_you_mean

_TOKEN: Final = re.compile(
    r"""(?P<text>[rR]?(?:'''.*?'''|\"{3}.*?\"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))"""
    r"|(?P<comment>//[^\n]*)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<mark>==|!=|<=|>=|&&|\|\||\S)",
    re.DOTALL,
)
_LONGEST: Final = 10_000
_NO_FUNCTION: Final = "Undefined variable or function"
_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})
# A mistake, and a hint
_Slip: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """Returns the value of a text, or a name."""
        return self.text.lstrip("rR").strip("'\"") if self.kind == "text" else self.text


_END: Final = _Token("end", "")


def compiled(expression: str, location: Location, problems: list[Diagnostic]) -> cel.Program | None:
    """Returns the expression if it can be evaluated, as far as that is known before there is a
    plan."""
    if len(expression) > _LONGEST:
        message = f"the expression has more than {_LONGEST} characters"
        hint = "make several policies of it"
        problems.append(Diagnostic("policy.too-long", message, location, hint=hint))
        return None
    try:
        program = cel.compile(expression)
    except ValueError as error:
        reason = str(error).partition("ERROR: ")[2] or str(error)
        message = "the expression is not one of CEL"
        hint = "an expression is like: change.does.exists(d, d == 'delete')"
        if "has() macro" in reason:
            hint = """to ask for a key in brackets, write "tasks.max" in change.config"""
        problems.append(
            Diagnostic("policy.syntax", message, location, why=reason.strip(), hint=hint)
        )
        return None
    wrong = list(_misnamed(expression, program, location)) or list(_untyped(program, location))
    problems.extend(wrong)
    return None if wrong else program


def bound_names(expression: str) -> frozenset[str]:
    """Returns the names that macros such as `exists(k, …)` give to elements."""
    tokens = _tokens(expression)
    return frozenset(
        tokens[at + 2].text
        for at, token in enumerate(tokens[:-2])
        if token.text in _MACROS and tokens[at + 1].text == "(" and tokens[at + 2].kind == "name"
    )


def slips(expression: str, location: Location) -> Iterator[Diagnostic]:
    """Returns fields and words that no plan has, in the order of the expression, each with a hint
    at the right one."""
    for message, hint in _Reader(_tokens(expression)).slips():
        yield Diagnostic("policy.unknown-field", message, location, hint=hint)


def _tokens(expression: str) -> list[_Token]:
    tokens = (_Token(str(match.lastgroup), match[0]) for match in _TOKEN.finditer(expression))
    return [token for token in tokens if token.kind != "comment"]


class _Reader:
    """Follows each path of an expression through the shapes."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._shapes: dict[str, Shape] = dict(SHAPES)

    def slips(self) -> Iterator[_Slip]:
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            is_root = token.kind == "name" and self._at(at - 1).text != "."
            if is_root and token.text in self._shapes:
                at = yield from self._path(at)
            else:
                at += 1

    def _at(self, at: int) -> _Token:
        return self._tokens[at] if 0 <= at < len(self._tokens) else _END

    def _path(self, start: int) -> Generator[_Slip, None, int]:
        """Reads one path; returns where it ends."""
        path, shape, at = (
            self._tokens[start].text,
            self._shapes[self._tokens[start].text],
            start + 1,
        )
        while True:
            mark, name = self._at(at), self._at(at + 1)
            is_call = self._at(at + 2).text == "("
            if mark.text == "." and name.kind == "name" and is_call:
                self._bind(name.text, self._at(at + 3), shape)
                return at + 3
            is_field = mark.text == "." and name.kind == "name"
            is_index = mark.text == "[" and self._at(at + 2).text == "]"
            if is_field or (is_index and name.kind == "text"):
                if isinstance(shape, dict) and name.word not in shape:
                    hint = did_you_mean(name.word, shape)
                    yield f"{path} has no field {name.word!r}", hint
                    return at + 2
                if isinstance(shape, list):
                    hint = f"ask each of them: {path}.exists(x, …)"
                    yield f"{path} is a list and has no field {name.word!r}", hint
                    return at + 2
                shape = shape[name.word] if isinstance(shape, dict) else None
                path = f"{path}.{name.word}"
            elif is_index and name.kind == "number":
                shape = shape[0] if isinstance(shape, list) else None
                path = f"{path}[{name.text}]"
            else:
                yield from self._compared(path, shape, start, at)
                return at
            at += 2 if is_field else 3

    def _bind(self, macro: str, name: _Token, shape: Shape) -> None:
        if macro in _MACROS and name.kind == "name":
            self._shapes[name.text] = shape[0] if isinstance(shape, list) else None

    def _compared(self, path: str, shape: Shape, start: int, end: int) -> Iterator[_Slip]:
        """Texts that the path is held against: `path == "a"`, `"a" in path`, `path in ["a"]`."""
        preceding, operator = self._at(start - 1).text, self._at(end).text
        if preceding == "in" and isinstance(shape, dict | list):
            words = shape if isinstance(shape, dict) else shape[0]
            yield from self._unknown_words(path, words, [self._at(start - 2)])
        elif isinstance(shape, frozenset) and operator in ("==", "!="):
            yield from self._unknown_words(path, shape, [self._at(end + 1)])
        elif isinstance(shape, frozenset) and preceding in ("==", "!="):
            yield from self._unknown_words(path, shape, [self._at(start - 2)])
        elif isinstance(shape, frozenset) and operator == "in" and self._at(end + 1).text == "[":
            tokens = self._tokens[end + 2 :]
            closing = next((n for n, token in enumerate(tokens) if token.text == "]"), 0)
            yield from self._unknown_words(path, shape, tokens[:closing])

    def _unknown_words(self, path: str, words: Shape, tokens: list[_Token]) -> Iterator[_Slip]:
        if not isinstance(words, dict | frozenset):
            return
        for token in tokens:
            if token.kind == "text" and token.word not in words:
                yield f"{path} is never {token.word!r}", did_you_mean(token.word, words)


def _misnamed(expression: str, program: cel.Program, location: Location) -> Iterator[Diagnostic]:
    unknown = sorted(set(program.variables()) - set(NAMES) - bound_names(expression))
    if unknown:
        message = f"the expression uses {', '.join(unknown)}, which a policy does not know"
        hint = did_you_mean(unknown[0], NAMES)
        yield Diagnostic("policy.unknown-name", message, location, hint=hint)
    yield from slips(expression, location)


def _untyped(program: cel.Program, location: Location) -> Iterator[Diagnostic]:
    """Yields the mistake that a sample reveals, unless it depends on the values of the sample."""
    message, reason = "", ""
    try:
        answer = program.execute(SAMPLE)
        if not isinstance(answer, bool):
            message = f"the expression answers with {type(answer).__name__}, not true or false"
    except TypeError as error:
        message, reason = "the expression mixes types", str(error).partition(". ")[0]
    except RuntimeError as error:
        if str(error).startswith(_NO_FUNCTION):
            message, reason = (
                "the expression calls what is no function",
                str(error).partition(". ")[0],
            )
    # Keys and elements that this sample has not, a plan may have
    except Exception:
        return
    if message:
        hint = "docs/policies.md lists what an expression may use, and its types"
        yield Diagnostic("policy.type", message, location, reason, hint)
