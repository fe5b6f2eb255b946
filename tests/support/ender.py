"""Ends what a run of tests started for all of its workers, when the run has ended or was killed.

Run as a script with the run's folder; it waits for the end of its stdin, which the run holds open.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import rmtree

from connect_runtime.kafka.local_processes import end_process

_RECORD = "process.json"
_PATIENCE_S = 20


def end_with_run(folder: Path, pid: int, started: float) -> None:
    """Records a process in a folder of the run: it is ended with the run, if it lives then."""
    (folder / _RECORD).write_text(json.dumps({"pid": pid, "started": started}))


def end_all(folder: Path) -> None:
    """Ends recorded processes and brokers, Connect workers before the brokers that they use."""
    for file in (*folder.glob(f"*/{_RECORD}"), *folder.glob("*/broker.json")):
        found = json.loads(file.read_bytes())
        end_process(found["pid"], found["started"], patience_s=_PATIENCE_S)
    rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_all(Path(sys.argv[1]))
