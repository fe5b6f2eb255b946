"""Numbered lines, and the account of them: which are lost, duplicated, or not ours at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_FILLER = "the quick brown fox jumps over the lazy dog, again and again and again,"
LINE_BYTES = len(f"line 000000 {_FILLER} 000000\n")


def write_lines(file: Path, count: int) -> None:
    """`line 000001 ...` and so on, each of LINE_BYTES."""
    with file.open("w") as out:
        out.writelines(
            f"line {number:06d} {_FILLER} {number:06d}\n" for number in range(1, count + 1)
        )


def line_number(line: str) -> int | None:
    """The number of one of our lines, checked at both of its ends; None for any other text."""
    words = line.split()
    if len(words) < 3 or words[0] != "line" or words[1] != words[-1] or not words[1].isdigit():
        return None
    return int(words[1])


@dataclass(frozen=True, slots=True)
class Account:
    """What was found, against how often each line number was to be there."""

    found: int
    lost: int
    duplicated: int
    extra: int

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.extra)

    def __str__(self) -> str:
        return (
            f"{self.found} lines: {self.lost} lost, {self.duplicated} duplicated, "
            f"{self.extra} extra"
        )


def account(lines: Iterable[str], expected: Counter[int]) -> Account:
    """Compares lines with how often each number is expected."""
    numbers = Counter(map(line_number, lines))
    ours: Counter[int] = Counter()
    for number, times in numbers.items():
        if number is not None and number in expected:
            ours[number] = times
    return Account(
        found=numbers.total(),
        lost=(expected - ours).total(),
        duplicated=(ours - expected).total(),
        extra=numbers.total() - ours.total(),
    )
