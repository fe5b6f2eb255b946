"""`connect logs`: what the runtime of this folder, and its tasks, log about a connector.

Reads files on this machine, so it works whether or not the runtime is up.
"""

from __future__ import annotations

import time
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import NAME
from connect_reconciler.cli.output import progress, result
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Invalid
from connect_specs.plain_text import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connect_reconciler.cli.runtime_logs import LogEvent
    from connect_reconciler.cli.session import Invocation

_EVERY_S = 0.3


def logs(
    context: typer.Context,
    name: Annotated[str | None, NAME] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines until Ctrl-C.")
    ] = False,
) -> None:
    """Print what the runtime here and its tasks log about a connector; without NAME, all of it.

    Reads the logs below .connect/, also those of a runtime that is down. A runtime in the
    foreground, without a terminal, writes its own lines to stderr. On a Spark cluster, tasks log
    where they run.
    """
    from connect_reconciler.cli.runtime_logs import LogFiles, is_about, log_files
    from connect_runtime.logs.log_output import older

    files = log_files(_data_folder(invocation(context)))
    if not follow and not any(file.exists() for file in files):
        problem = "no runtime has logged here"
        hint = "`connect up --detach` starts one; --follow waits for its lines"
        raise Failed(Diagnostic("logs.none", problem, str(files[-1].parents[1]), hint=hint))
    reader = LogFiles(files)
    everything = [*LogFiles([older(file) for file in files]).read(), *reader.read()]
    events = [event for event in everything if is_about(event, name)]
    _print(events)
    if not events:
        _report_nothing(name, invocation(context), follow=follow)
    while follow:
        time.sleep(_EVERY_S)
        _print([event for event in reader.read() if is_about(event, name)])


def _report_nothing(name: str | None, call: Invocation, *, follow: bool) -> None:
    """Raises Failed for an unknown name; with `follow` a connector of that name may still come."""
    message = "nothing was logged" + (f" about {name}" if name else "")
    names = None if name is None else _known_names(call)
    if name is None or names is None or name in names:
        if not follow:
            progress(message)
        return
    problem = f"there is no connector {name}, and nothing was logged about it"
    if follow:
        progress(f"{problem}; waiting for lines about it")
        return
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else "`connect status --all` lists the connectors"
    raise Failed(Diagnostic("logs.no-such-connector", problem, name, hint=hint))


def _known_names(call: Invocation) -> Sequence[str] | None:
    """Returns the connectors of the specs and of the runtime here; None where the specs cannot be
    read."""
    from connect_reconciler.cli.runtime_process import find_runtime, probe
    from connect_runtime.rest.password import login
    from connect_specs.loader import load_specs

    try:
        project = call.project()
        names = set(load_specs(project).connectors)
    except ConnectError:
        return None
    runtime = find_runtime(project)
    if runtime is not None and runtime.url:
        url = f"{runtime.url}/connectors?expand=info"
        names |= (probe(project, url, login(project.data)) or {}).keys()
    return sorted(names)


def _data_folder(call: Invocation) -> Path:
    """Returns the data folder of the project, or of a `connect distributed` in this folder."""
    from connect_specs.project import PROJECT_FILE

    own = call.path(Path(".connect"))
    if own.is_dir() and not call.path(Path(PROJECT_FILE)).exists():
        return own
    project = call.project()
    if project.target is not None:
        from connect_reconciler.backend.rest.connection import shown_url

        problem = "the logs of an existing Connect cluster are with its workers"
        raise Invalid(Diagnostic("logs.rest-target", problem, shown_url(project.target)))
    return project.data


def _print(events: Sequence[LogEvent]) -> None:
    if events:
        # what is logged comes from anywhere, such as a record that failed
        result("\n".join(lines_of(event.text.expandtabs()) for event in events))
