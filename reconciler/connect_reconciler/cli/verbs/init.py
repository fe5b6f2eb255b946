"""`connect init`: a small project that plans, applies and runs as it is."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import Diagnostic, Invalid, Location

_PROJECT = """\
# The project's name owns what it applies; other projects on the same cluster are left alone.
project: {name}
cluster:
  # Names this cluster's topics: {name}-configs, {name}-offsets, {name}-status.
  group.id: {name}
  # A Kafka of this machine's own, kept in .connect/. For another, write its client properties:
  #   kafka: {{bootstrap.servers: "localhost:9092"}}
  kafka: embedded
  worker:
    key.converter: org.apache.kafka.connect.storage.StringConverter
    value.converter: org.apache.kafka.connect.storage.StringConverter
# Folders and files that hold specs: one connector a YAML document.
specs: [connectors/]
"""

_EXAMPLE = """\
# Every line of a file becomes a record of the topic `lines`.
name: example
state: running
config:
  connector.class: FileStreamSource
  tasks.max: 1
  file: {file}
  topic: lines
"""


def init(context: typer.Context, as_json: AsJson = False) -> None:
    """Write connect.yaml, connectors/example.yaml and a file for it to read.

    Writes nothing if one of them already exists.
    """
    folder = invocation(context).folder.resolve()
    name = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-") or "example"
    lines = folder / "lines.txt"
    files = {
        "connect.yaml": _PROJECT.format(name=name),
        "connectors/example.yaml": _EXAMPLE.format(file=_quoted(lines)),
        "lines.txt": "one\ntwo\nthree\n",
    }
    _refuse_existing(folder, files)
    for file, text in files.items():
        target = folder / file
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    if as_json:
        result_json({"project": name, "files": list(files)})
        return
    result(
        "\n".join(
            [
                *(f"wrote {file}" for file in files),
                "",
                "Next:",
                "  connect up --detach   start Kafka and the runtime",
                "  connect apply         show the plan, ask, and apply it",
                "  connect status        see it run",
            ]
        )
    )


def _refuse_existing(folder: Path, files: dict[str, str]) -> None:
    there = [file for file in files if (folder / file).exists()]
    if there:
        raise Invalid(
            *(
                Diagnostic(
                    "init.exists",
                    "this file already exists, and init does not overwrite",
                    Location(file),
                    hint="remove it, or run `connect init` in an empty folder",
                )
                for file in there
            )
        )


def _quoted(path: Path) -> str:
    """A path as a YAML scalar: double quotes only where a plain one could be misread."""
    text = str(path)
    if re.fullmatch(r"[\w./-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
