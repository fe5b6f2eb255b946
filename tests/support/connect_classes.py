"""Kafka Connect's own transformations, predicates and schemas, asked in a Java VM without a worker.

The program is `oracle/transforms/ApplyTransforms.java`; Java compiles it when it starts.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from connect_runtime.api.record_plugins import ConnectRecord
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import find_java
from support.connect_json import Json, record_json

PROGRAM = Path(__file__).parents[1] / "oracle" / "transforms" / "ApplyTransforms.java"
# Code that is not compiled yet needs far more stack for deep values than Connect's limits allow for
_FLAGS = ("-Xmx256m", "-Xss64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class ConnectClasses:
    """A running Java VM that answers one case after the other."""

    def __init__(self, *flags: str, more_jars: Sequence[Path] = ()) -> None:
        java = find_java()
        assert java is not None, "Java not found"
        jars = ":".join([classpath("connect"), *map(str, more_jars)])
        self._process = subprocess.Popen(
            [str(java), *_FLAGS, *flags, "-cp", jars, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def ask(self, case: Mapping[str, Any]) -> Json:
        """Answers one case as the program understands it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the program ended; run it by hand to see why"
        found: Json = json.loads(answer)
        return found

    def apply(
        self, name: str, config: Mapping[str, str | None], records: Sequence[ConnectRecord]
    ) -> Json:
        """What a transformation or predicate, configured once, does with each record: `results`, or
        the `error` of its configuration."""
        return self.ask(
            {
                "class": name,
                "config": dict(config),
                "records": [
                    {**record_json(r), "kind": type(r).__name__.removesuffix("Record").lower()}
                    for r in records
                ],
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
