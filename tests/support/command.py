"""Running the real `connect` as a process of its own, as a user does, but started quickly."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    """The command in one folder. Unless `warmed`, each is a Python that is started for it: what
    tests of the start itself need."""

    folder: Path
    warmed: bool = True

    def __call__(
        self, *words: str, given: str = "", timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end, with `given` on stdin; both outputs are kept."""
        return run_connect(
            words,
            folder=self.folder,
            environment=os.environ | {"COLUMNS": "100"},
            given=given,
            timeout_s=timeout_s,
            warmed=self.warmed,
        )

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the project, with the folders above it."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file
