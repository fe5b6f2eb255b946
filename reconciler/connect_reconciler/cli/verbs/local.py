"""`connect init`, `validate`, `package`, `completion` and `version`: what needs no cluster."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from connect_reconciler.cli.options import AsJson, ExplainVars
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import (
    COMPLETE,
    invocation,
    origins_json,
    origins_of,
    origins_text,
)
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.plain_text import counted, one_line

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
    from connect_reconciler.cli.project_files import written

    folder = invocation(context).folder.resolve()
    name = re.sub(r"[^a-z0-9-]+", "-", folder.name.lower()).strip("-") or "example"
    lines = folder / "lines.txt"
    files = {
        "connect.yaml": _PROJECT.format(name=name),
        "connectors/example.yaml": _EXAMPLE.format(file=_quoted(lines)),
        "lines.txt": "one\ntwo\nthree\n",
    }
    _refuse_existing(folder, files)
    with written(folder, files, force=False):
        pass
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
    existing = [file for file in files if (folder / file).exists()]
    if existing:
        raise Invalid(
            *(
                Diagnostic(
                    "init.exists",
                    "this file already exists, and init does not overwrite",
                    Location(file),
                    hint="remove it, or run `connect init` in an empty folder",
                )
                for file in existing
            )
        )


def _quoted(path: Path) -> str:
    """Returns a path as a YAML scalar: double quotes only where a plain one could be misread."""
    text = str(path)
    if re.fullmatch(r"[\w./-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def validate(
    context: typer.Context, explain_vars: ExplainVars = False, as_json: AsJson = False
) -> None:
    """Check connect.yaml, specs, policies and tests: all mistakes at once, with places and hints.

    Configs are checked against the plugins that are installed here, and those in
    plugins.lock.json. Changes nothing and needs no cluster. Exit code 2 if anything is wrong.
    """
    from connect_reconciler.cli.entry import to_json
    from connect_reconciler.workflow.planning import read_files, with_configs
    from connect_specs.plain_text import render_diagnostics
    from connect_specs.record_tests import read_tests

    project = invocation(context).project()
    variables = origins_of(project) if explain_vars else None
    if variables is not None and not as_json:
        # Before what may be wrong: a value is often the reason
        result(origins_text(variables))
    files = with_configs(project, read_files(project))
    desired = files.desired
    warnings = by_place((*desired.warnings, *files.warnings))
    _, wrong_tests = read_tests(project, desired.connectors)
    errors = by_place(dict.fromkeys((*files.errors, *wrong_tests)))
    if errors or not as_json:
        sys.stderr.write(render_diagnostics(warnings, "warning"))
    if errors:
        raise Invalid(*errors)
    if as_json:
        document: dict[str, object] = {
            "project": desired.project,
            "connectors": list(desired.connectors),
            "warnings": to_json(warnings),
        }
        if variables is not None:
            document["variables"] = origins_json(variables)
        result_json(document)
        return
    number = counted(len(desired.connectors), "connector")
    lines = [f"{desired.project}: {number}, no mistakes"]
    lines += [f"  {name}  {spec.where}" for name, spec in desired.connectors.items()]
    result("\n".join(map(one_line, lines)))


def package(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Further packages or modules to include. Packages that register plugins are"
            " included anyway, and so are the Java plugins of the project.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The archive to write.")
    ] = Path("environment.tar.gz"),
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Where Python is on the nodes; by default, where it is here."
        ),
    ] = None,
    plugin_path: Annotated[
        str | None,
        typer.Option(
            metavar="PATHS", help="The Java plugins to include; by default, those of the project."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Pack connect, its plugins and what they require for the nodes of a Spark cluster.

    Prints what each node must have, and the worker properties with which Spark sends the archive to
    its executors.
    """
    from connect_reconciler.cli.project_files import not_written
    from connect_runtime.spark.environment_archive import pack

    file = invocation(context).path(output).resolve()
    # not the one of a virtual environment, which nodes do not have
    interpreter: str = getattr(sys, "_base_executable", sys.executable)
    path = _plugin_path(context, plugin_path)
    try:
        packed = pack(file, python or interpreter, names or (), {"plugin.path": path})
    except OSError as error:
        raise not_written("the archive cannot be written", file, error) from error
    if as_json:
        result_json(
            {
                "file": str(packed.file),
                "packages": list(packed.packages),
                "needs": list(packed.needs),
                "properties": dict(packed.properties),
            }
        )
        return
    size = packed.file.stat().st_size / 1_000_000
    progress(f"{packed.file}: {size:.0f} MB, {len(packed.packages)} packages")
    if path:
        progress(f"with the Java plugins in {path}")
    progress("Each node needs:")
    for requirement in packed.needs:
        progress(f"  {requirement}")
    progress("Worker properties that use it (in connect.yaml under cluster.worker):")
    result("\n".join(f"{key}: {value}" for key, value in packed.properties.items()))


def _plugin_path(context: typer.Context, paths: str | None) -> str:
    """Returns the paths that the user wrote, or those of the project that the command runs in;
    empty without one. Raises Invalid for a path that is not there."""
    from connect_runtime.settings.worker_config import plugin_path
    from connect_specs.project import has_project

    call = invocation(context)
    if paths is None:
        return plugin_path(call.project()) if has_project(call.folder) else ""
    written = [call.path(Path(path.strip())) for path in paths.split(",")]
    missing = [str(path) for path in written if not path.exists()]
    if missing:
        problem = f"{', '.join(missing)} of --plugin-path does not exist"
        raise Invalid(Diagnostic("package.plugin-path", problem))
    return ",".join(map(str, written))


class Shell(StrEnum):
    """The shells that there are scripts for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes verbs, options, connectors and environments.

    Names come from the project's files, never from a cluster. In bash, and likewise in zsh:
    source <(connect completion bash). In fish: connect completion fish | source.
    """
    from typer._completion_shared import get_completion_script

    result(get_completion_script(prog_name="connect", complete_var=COMPLETE, shell=shell.value))


def version(as_json: AsJson = False) -> None:
    """Show the version of connect and of the Python that runs it."""
    import platform
    from importlib.metadata import version as version_of

    release = version_of("connect-reconciler")
    if as_json:
        result_json({"connect": release, "python": platform.python_version()})
    else:
        result(f"connect {release} (Python {platform.python_version()})")
