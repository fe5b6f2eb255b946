"""A page of docs/ as a user would follow it: its files are written, its commands run, and what they
print is compared with the page, or written into it.

A file is a block after a line that ends with its name in backquotes and a colon. A block that
begins with `$ ` holds commands; after each stands its output, both streams as on a terminal.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from support import warm

_FENCE = "```"
_FILE = re.compile(r"`([\w./-]+)`:$")
_TIMEOUT_S = 180
# What differs between two runs, and how the page has it
_PASSING = (
    (re.compile(r"\bin \d+\.\d s\b"), "in 2.1 s"),
    (re.compile(r"\S+@\S+ pid \d+ *"), "me@laptop pid 4711  "),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(?=Z| UTC|\b)"), "2026-11-22 10:15:00"),
)
_APPLY = re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{8}\b")
_BEGAN = re.compile(r"^(\d{8}T(\d\d)(\d\d)00Z-\w{8} +)2026-11-22 10:15:00Z", re.MULTILINE)
# How far an apply is, line by line; connectors are changed side by side
_PROGRESS = re.compile(r"  [\w-]+: ")


@dataclass
class Page:
    """`real` says what is here in place of each of the page's names: addresses, folders, ids."""

    text: str
    folder: Path
    real: Mapping[str, str]
    _code: int = 0

    def followed(self) -> str:
        """The page with what its commands print now."""
        lines: list[str] = []
        rest = iter(self.text.splitlines())
        for line in rest:
            lines.append(line)
            if not line.startswith(_FENCE):
                continue
            block = list(self._block(rest))
            before = next((each for each in reversed(lines[:-1]) if each), "")
            named = _FILE.search(before)
            if block and block[0].startswith("$ "):
                block = list(self._run(block))
            elif named is not None:
                self._write(named[1], block)
            lines += [*block, _FENCE]
        return _with_fixed_ids("\n".join(lines) + "\n")

    def _block(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            if line == _FENCE:
                return
            yield line

    def _write(self, name: str, block: list[str]) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._here("\n".join(block) + "\n"))

    def _run(self, block: list[str]) -> Iterator[str]:
        for line in block:
            if line.startswith("$ "):
                yield line
                yield from self._printed(line.removeprefix("$ "))

    def _printed(self, command: str) -> list[str]:
        # The last exit code, as a shell that stays open tells it
        done = subprocess.run(
            ["bash", "-c", f"(exit {self._code}); {self._here(command)}"],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        self._code = done.returncode
        return _in_order([line.rstrip() for line in self._shown(done.stdout).splitlines()])

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "PATH": warm.path(),
            "COLUMNS": "100",
            # Both streams in the order in which they are written, as on a terminal
            "PYTHONUNBUFFERED": "1",
        }

    def _here(self, text: str) -> str:
        for shown, real in self.real.items():
            text = text.replace(shown, real)
        return text

    def _shown(self, text: str) -> str:
        for shown, real in self.real.items():
            text = text.replace(real, shown)
        for passing, fixed in _PASSING:
            text = passing.sub(fixed, text)
        return text


def _in_order(lines: list[str]) -> list[str]:
    """What is told of several connectors in a row, connector by connector."""
    found: list[str] = []
    for told, group in groupby(lines, key=lambda line: bool(_PROGRESS.match(line))):
        together = list(group)
        found += sorted(together, key=lambda line: line.split(":")[0]) if told else together
    return found


def _with_fixed_ids(text: str) -> str:
    """The ids of applies begin with their times, and keep that order."""
    ids = sorted(set(_APPLY.findall(text)))
    fixed = {
        each: f"20261122T10{15 + number:02}00Z-{0x4B1D9C02 + 0x1F3A7 * number:08x}"
        for number, each in enumerate(ids)
    }
    return _BEGAN.sub(r"\g<1>2026-11-22 \2:\3:00Z", _APPLY.sub(lambda at: fixed[at[0]], text))


def holds(file: Path, follow: Callable[[str], str], *, write: bool) -> None:
    """Follows the page, and asserts that it says what happens; with `write` it then does."""
    told = file.read_text()
    now = follow(told)
    if write:
        file.write_text(now)
    else:
        assert now.splitlines() == told.splitlines()
