"""A walk through `connect` in a project of its own, as a user would take it.

Drives the real command by subprocess. Each step has a title, its commands and their output are
shown, and any command that does not end as it should ends the walk with exit code 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CONNECT = [sys.executable, "-P", "-m", "connect_reconciler.cli"]


class Off(Exception):
    """Something did not go as it must."""


def say(text: str) -> None:
    print(text, flush=True)


@dataclass
class Walkthrough:
    """The temporary project; `environment` is what its commands get besides this process's own."""

    folder: Path
    started: float = field(default_factory=time.monotonic)
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    kafka: str = ""
    pid: int = 0
    step: int = 0

    def title(self, text: str) -> None:
        self.step += 1
        say(f"\n[{time.monotonic() - self.started:4.0f} s] {self.step}. {text}")

    def connect(self, *words: str, expect: int = 0) -> None:
        """Runs a verb with its output shown."""
        say(f"$ connect {' '.join(words)}")
        code = self.start_verb(*words).wait()
        if code != expect:
            raise Off(f"connect {words[0]} ended with {code}, not {expect}")

    def ask(self, *words: str) -> Any:
        """Runs a verb for its JSON."""
        process = self.start_verb(*words, "--json", stdout=subprocess.PIPE)
        output, _ = process.communicate()
        if process.returncode != 0:
            raise Off(f"connect {' '.join(words)} ended with {process.returncode}")
        return json.loads(output)

    def start_verb(self, *words: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self.environment}
        return subprocess.Popen([*CONNECT, *words], cwd=self.folder, stdout=stdout, env=environment)

    def up(self, *options: str) -> None:
        """Starts Kafka and the runtime, in the background, for this folder only."""
        words = ["up", "--detach", *options]
        say(f"$ connect {' '.join(words)}")
        up = self.ask(*words)
        self.url, self.kafka, self.pid = up["url"], up["kafka"], up["pid"]
        say(f"  the runtime answers at {self.url}, Kafka at {self.kafka}")

    def spec(self, name: str, text: str) -> None:
        (self.folder / "connectors" / f"{name}.yaml").write_text(text)

    def take(self, steps: Sequence[Callable[[Any], None]], success: str) -> int:
        """Takes the steps, then ends the runtime; returns the exit code of the walk. The project's
        folder is kept if a step failed."""
        say(f"A project of its own, in {self.folder}")
        problem = ""
        try:
            for step in steps:
                step(self)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        except KeyboardInterrupt:
            problem = "interrupted"
        finally:
            self.title("Stop the runtime, then Kafka.")
            ended = self.start_verb("down").wait()
        if not problem and ended != 0:
            problem = f"connect down ended with {ended}"
        seconds = time.monotonic() - self.started
        if problem:
            say(f"\nFAILED after {seconds:.0f} s: {problem}\nEverything is kept in {self.folder}")
            return 1
        shutil.rmtree(self.folder)
        say(f"\n{success}; {seconds:.0f} s.")
        return 0


def temporary_folder(name: str) -> Path:
    """Returns a folder for a project, with a folder for its specs."""
    folder = Path(tempfile.mkdtemp(prefix=f"connect-{name}-"))
    (folder / "connectors").mkdir()
    return folder
