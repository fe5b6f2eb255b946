"""A source that needs a password, tells the test which one it got, and quotes it where it fails."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from connect_runtime.api import ConnectorError, SourceTask
from support.connectors import ObedientSource, ObedientSourceTask

LEAKY = f"{__name__}.LeakySource"


class LeakySource(ObedientSource):
    """`leak` names where it throws with the password in the text: start, stop, task, exit (of the
    task), or refuse and throw of `alter_offsets`."""

    started: ClassVar[list[Mapping[str, str]]] = []

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self.started.append(dict(props))
        if props.get("leak") == "start":
            raise _refused(props)

    def stop(self) -> None:
        super().stop()
        if self.props.get("leak") == "stop":
            raise _refused(self.props)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        match config.get("leak"):
            case "refuse":
                raise _refused(config)
            case "throw":
                raise ValueError(str(_refused(config)))
            case _:
                return config["pass.word"].startswith("s3cret")

    def task_class(self) -> type[SourceTask]:
        return LeakySourceTask


class LeakySourceTask(ObedientSourceTask):
    """Its configs as they were given."""

    started: ClassVar[list[Mapping[str, str]]] = []

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        self.started.append(dict(props))
        if props.get("leak") == "task":
            raise _refused(props)
        if props.get("leak") == "exit":
            sys.exit(str(_refused(props)))


def _refused(props: Mapping[str, str]) -> ConnectorError:
    return ConnectorError(f"login of {props['name']} with '{props['pass.word']}' refused")
