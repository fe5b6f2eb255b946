"""Running the real `connect` as a process of its own, as a user does."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CONNECT = (sys.executable, "-P", "-m", "connect_reconciler.cli")


@dataclass(frozen=True, slots=True)
class Command:
    """The command in one folder."""

    folder: Path

    def __call__(
        self, *words: str, given: str = "", timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Runs it to its end, with `given` on stdin; both outputs are kept."""
        return subprocess.run(
            [*CONNECT, *words],
            cwd=self.folder,
            input=given,
            env=os.environ | {"COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the project, with the folders above it."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file
