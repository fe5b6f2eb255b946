"""Numbered lines, and the account of them: which are lost, which came twice, which are not ours."""

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_FILLER = "the quick brown fox jumps over the lazy dog, again and again and again"
_BLOCK = 100
_EVERY_S = 0.05


def line(number: int) -> str:
    """A line of about 100 bytes with its number at both ends, so that a piece is told from it."""
    return f"line {number:08d} {_FILLER} {number:08d}"


def number_of(text: str) -> int | None:
    """The number of one of our lines; None for any other text."""
    number = text[5:13]
    return int(number) if number.isdigit() and text == line(int(number)) else None


def write_lines(file: Path, first: int, last: int) -> None:
    """Appends the lines `first` to `last`."""
    with file.open("a") as out:
        out.writelines(f"{line(number)}\n" for number in range(first, last + 1))


def last_number(file: Path) -> int | None:
    """The number of the last line of a file; None while that is none of ours."""
    if not file.exists():
        return None
    with file.open("rb") as text:
        text.seek(max(0, file.stat().st_size - 200))
        lines = text.read().decode(errors="replace").splitlines()
    return number_of(lines[-1]) if lines else None


class Feeder:
    """A file that grows by 100 lines every `every_s`, until `stop`: load that does not run dry
    before the moment that a test waits for, and does not pile up on a machine that is slow."""

    def __init__(self, file: Path, every_s: float = _EVERY_S) -> None:
        self._file = file
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the growth."""
        self._over.set()
        self._thread.join()

    def finish(self, at_least: int) -> int:
        """Ends the growth with some lines more, so many in all at least; returns how many."""
        self.stop()
        last = max(self.count + _BLOCK, at_least)
        write_lines(self._file, self.count + 1, last)
        self.count = last
        return last

    def _feed(self) -> None:
        while not self._over.wait(self._every_s):
            write_lines(self._file, self.count + 1, self.count + _BLOCK)
            self.count += _BLOCK


@dataclass(frozen=True, slots=True)
class Account:
    """What was found against what was to be there. `torn` are pieces of our lines."""

    found: int
    lost: int
    duplicated: int
    torn: int
    extra: int


def account(texts: Iterable[str], expected: Counter[int]) -> Account:
    """Compares lines with how often each number is expected."""
    counts = Counter(texts)
    numbers: Counter[int] = Counter()
    torn = extra = 0
    for text, times in counts.items():
        number = number_of(text)
        if number is not None and number in expected:
            numbers[number] = times
        elif number is None and _is_piece(text):
            torn += times
        else:
            extra += times
    return Account(
        found=counts.total(),
        lost=(expected - numbers).total(),
        duplicated=(numbers - expected).total(),
        torn=torn,
        extra=extra,
    )


def once(last: int, first: int = 1) -> Counter[int]:
    """Every number from `first` to `last`, once."""
    return Counter(range(first, last + 1))


def _is_piece(text: str) -> bool:
    """Whether it is the beginning of one of our lines, as a killed writer leaves it."""
    number = text[5:13]
    if len(text) >= 13:
        return number.isdigit() and line(int(number)).startswith(text)
    return "line ".startswith(text[:5]) and (not number or number.isdigit())
