"""Running the real `connect`: as a process of its own, but started quickly, or in this one."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from connect_reconciler.cli import entry
from support import warm

CONNECT = (sys.executable, "-P", "-m", "connect_reconciler.cli")


def run_connect(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    given: str = "",
    timeout_s: float = 120,
    warmed: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, with `given` on stdin; both outputs are kept. Unless `warmed`,
    in a Python that is started for it."""
    if warmed and warm.can_run(environment):
        return warm.run(
            words, folder=folder, environment=environment, given=given, timeout_s=timeout_s
        )
    return subprocess.run(
        [*CONNECT, *words],
        cwd=folder,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


@dataclass(frozen=True, slots=True)
class Command:
    """The command in one folder: a process of its own, or with `capture`, which keeps its outputs,
    this one. Unless `warmed`, each process is a Python that is started for it: what tests of the
    start itself need."""

    folder: Path
    warmed: bool = True
    capture: pytest.CaptureFixture[str] | None = None

    def __call__(
        self, *words: str, given: str = "", timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end, with `given` on stdin; both outputs are kept."""
        if self.capture is not None:
            return self._in_this_process(words, given, self.capture)
        return run_connect(
            words,
            folder=self.folder,
            environment=os.environ | {"COLUMNS": "100"},
            given=given,
            timeout_s=timeout_s,
            warmed=self.warmed,
        )

    def _in_this_process(
        self, words: Sequence[str], given: str, capture: pytest.CaptureFixture[str]
    ) -> subprocess.CompletedProcess[str]:
        stdin = io.TextIOWrapper(io.BytesIO(given.encode()), "utf-8")
        capture.readouterr()
        with (
            chdir(self.folder),
            patch.dict(os.environ, {"COLUMNS": "100"}),
            patch.object(sys, "stdin", stdin),
        ):
            code = entry.run(words)
        return subprocess.CompletedProcess(["connect", *words], code, *capture.readouterr())

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the project, with the folders above it; `name/` is an empty folder."""
        file = self.folder / name
        if name.endswith("/"):
            file.mkdir(parents=True)
            return file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def commit(self, message: str) -> None:
        """Commits all that is in the folder, in a git repository of its own."""
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", message)):
            subprocess.run(
                ["git", "-C", str(self.folder), *identity, *words], check=True, capture_output=True
            )


def case_id(topic: str, case: str) -> str:
    """The id of a case of a table of command lines."""
    return re.sub(r"[^a-z0-9]+", "-", f"{topic} {case}".lower()).strip("-")
