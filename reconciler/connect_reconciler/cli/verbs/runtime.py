"""`connect up`, `down`, `distributed`, `standalone` and `password`: the runtime.

`down` ends what `up` started in this project, and nothing else. The runtime ends first, in order:
tasks, Spark, broker. Its leftovers are ended after it.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json, show_progress_as_json
from connect_reconciler.cli.session import invocation
from connect_reconciler.cli.signals import may_change
from connect_runtime.logs import log_output
from connect_runtime.logs.log_output import LogFormat
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from connect_reconciler.cli.session import Invocation
    from connect_runtime.kafka.embedded import BrokerRecord
    from connect_runtime.settings.worker_config import WorkerConfig
    from connect_specs.desired import Project
    from connect_specs.worker_files import WorkerFile


# Tasks have 5 s to commit and the broker 15 s to write everything down; the rest is Spark's.
_RUNTIME_S = 45.0
_BROKER_S = 15.0

Slots = Annotated[
    int | None, typer.Option(min=1, help="How many tasks can run at the same time on this machine.")
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="The Spark master, such as spark://host:7077.")
]
LogLines = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        help="How log lines are written: text, or json with one event a line "
        f"(or set {log_output.VARIABLE}).",
    ),
]


def up(
    context: typer.Context,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background; return once it is healthy.")
    ] = False,
    slots: Slots = None,
    master: Master = None,
    log_lines: LogLines = None,
    as_json: AsJson = False,
) -> None:
    """Run this project's connectors: the runtime, and Kafka where connect.yaml says embedded.

    Shows connectors and tasks until Ctrl-C; then tasks flush and commit, and Spark and Kafka shut
    down. All data stays in .connect/; the next `connect up` resumes from it.
    """
    from connect_reconciler.cli.runtime_process import ensure_runtime_installed

    _use_log_format(log_lines)
    project = invocation(context).project()
    _refuse_rest_target(project)
    _check_one_master(slots, master)
    ensure_runtime_installed()
    _install_plugins(project)
    config, warnings = _check_reach(project)
    if detach:
        _detach(project, slots, master, _with_master(config, slots, master), as_json=as_json)
        for warning in warnings:
            progress(f"warning: {warning}")
        _say_who_can_reach(config)
    else:
        _run_here(project, slots, master, as_json=as_json)


def _install_plugins(project: Project) -> None:
    """Installs the Java plugins that plugins.lock.json names and that are not there yet."""
    from connect_reconciler.cli.runtime_process import find_runtime
    from connect_specs.plugins_lock import load_locked_plugins

    if load_locked_plugins(project.folder) or project.plugins.is_dir():
        from connect_reconciler.cli.project_files import make_data_folder
        from connect_reconciler.workflow.plugin_installation import install_locked

        make_data_folder(project)
        is_up = find_runtime(project) is not None
        changes = install_locked(project, in_use=is_up, say=progress)
        if changes.installed:
            progress(f"installed Java plugins: {', '.join(changes.installed)}")


def _use_log_format(chosen: LogFormat | None) -> None:
    """Sets the format of log lines for this process and all that it starts."""
    if chosen is not None:
        os.environ[log_output.VARIABLE] = chosen.value
    if log_output.chosen() is LogFormat.JSON:
        show_progress_as_json()


def _check_one_master(slots: int | None, master: str | None) -> None:
    """Raises Invalid for slots on a cluster, whose workers decide how many tasks can run."""
    if slots is not None and master is not None:
        problem = "--slots and --master cannot be combined"
        hint = "--slots counts tasks on this machine; on a Spark cluster its workers decide"
        raise Invalid(Diagnostic("usage", problem, hint=hint))


def _with_master(config: WorkerConfig, slots: int | None, master: str | None) -> WorkerConfig:
    """Returns the settings with those of the command line about Spark."""
    if slots is not None:
        return config.with_slots(slots)
    return config if master is None else replace(config, master=master)


def _refuse_rest_target(project: Project) -> None:
    if project.target is not None:
        from connect_reconciler.backend.rest.connection import shown_url

        problem = "this project targets an existing Connect cluster; there is nothing to start"
        hint = f"`connect plan` and `connect apply` reach it at {shown_url(project.target)}"
        raise Invalid(Diagnostic("up.rest-target", problem, str(project.file), hint=hint))


def _check_reach(project: Project) -> tuple[WorkerConfig, list[str]]:
    """Returns the settings but Kafka's address, and warnings about the worker's properties. Raises
    Invalid where REST would answer all who reach this machine."""
    from connect_runtime.settings.worker_config import from_project

    # Kafka's address makes no difference here
    config, warnings = from_project(project, "localhost:9092")
    if config.open_hosts:
        hosts = ", ".join(config.open_hosts)
        problem = f"REST would answer whoever reaches this machine: it listens on {hosts}"
        hint = (
            "add rest.authentication: basic under 'worker', listen on 127.0.0.1, or on https with "
            "ssl.client.auth: required and a trust store"
        )
        raise Invalid(Diagnostic("up.open-listener", problem, str(project.file), hint=hint))
    return config, warnings


def _say_slots(config: WorkerConfig) -> None:
    if config.slots is not None:
        progress(f"{config.slots} slots: as many tasks can run at once (--slots N changes it)")


def _say_who_can_reach(config: WorkerConfig) -> None:
    if config.open_listeners:
        progress(
            "every user of this machine can use the REST API; rest.authentication: basic requires "
            "a password"
        )


def _detach(
    project: Project, slots: int | None, master: str | None, config: WorkerConfig, *, as_json: bool
) -> None:
    from connect_reconciler.cli.runtime_process import kafka_address, start_detached

    words = [] if slots is None else ["--slots", str(slots)]
    words += [] if master is None else ["--master", master]
    running = start_detached(project, words)
    kafka = kafka_address(project)
    if as_json:
        document = {"url": running.url, "kafka": kafka, "pid": running.pid, "slots": config.slots}
        result_json(document)
    else:
        result(f"up: REST at {running.url}, Kafka at {kafka}, pid {running.pid}")
        _say_slots(config)


def _run_here(project: Project, slots: int | None, master: str | None, *, as_json: bool) -> None:
    from connect_reconciler.cli.connecting import has_own_broker, own_broker
    from connect_reconciler.cli.foreground import keep_kafka_alive, run_until_stopped
    from connect_reconciler.cli.runtime_process import announce, claimed, scanning
    from connect_reconciler.cli.session import secrets_of_specs
    from connect_runtime.settings.worker_config import from_project

    with ExitStack() as stack:
        stack.enter_context(claimed(project))
        reached = project
        if has_own_broker(project):
            broker = stack.enter_context(own_broker(project, for_up=True))
            stack.enter_context(keep_kafka_alive(project, broker))
            reached = replace(project, kafka=broker.client_properties)
        config, warnings = from_project(reached, None)
        config = _with_master(_with_free_port(project, config), slots, master)
        _say_slots(config)
        _say_who_can_reach(config)
        run_until_stopped(
            config,
            warnings,
            on_url=partial(announce, project),
            scanning=partial(scanning, project),
            secrets=secrets_of_specs(project),
            as_json=as_json,
        )


def _with_free_port(project: Project, config: WorkerConfig) -> WorkerConfig:
    """Returns the settings with a free port if the default one, which connect.yaml does not name,
    is in use."""
    from connect_runtime.kafka.local_processes import is_free

    if "listeners" in project.worker or is_free(config.listener.port):
        return config
    progress(f"port {config.listener.port} is in use: REST listens on a free port")
    return replace(config, listeners=(replace(config.listener, port=0),))


def distributed(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A worker.properties file.")],
    slots: Slots = None,
    master: Master = None,
    log_lines: LogLines = None,
    as_json: AsJson = False,
) -> None:
    """Run the runtime from Apache's worker.properties, against the Kafka that the file names.

    Runs in the foreground until Ctrl-C. Keys that have no effect here are reported as warnings.
    """
    _use_log_format(log_lines)
    _check_one_master(slots, master)
    call = invocation(context)
    worker_file = _worker_file(call, file)
    with worker_file.placed():
        config, warnings = _settings(call, worker_file, slots, master)
        from connect_reconciler.cli.foreground import run_until_stopped

        run_until_stopped(config, warnings, on_url=lambda _: _say_slots(config), as_json=as_json)


def standalone(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A worker.properties file.")],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CONNECTOR",
            help="Files of connectors to create: JSON or properties, whatever they are named.",
        ),
    ] = None,
    slots: Slots = None,
    log_lines: LogLines = None,
    as_json: AsJson = False,
) -> None:
    """Run the runtime alone: offsets in a file, connectors and statuses in memory.

    For Apache's connect-standalone.properties. All connector files are checked before anything
    starts. Runs in the foreground until Ctrl-C; connectors created over REST are then forgotten.
    """
    _use_log_format(log_lines)
    call = invocation(context)
    worker_file = _worker_file(call, file)
    with worker_file.placed():
        config, warnings = _settings(call, worker_file, slots, standalone=True)
        from connect_reconciler.cli.foreground import run_until_stopped
        from connect_runtime.connectors.console import console_for, uses_console
        from connect_runtime.engine.plugin_path import has_java_plugins
        from connect_runtime.plugins.modules import allow_modules
        from connect_runtime.standalone.connectors import check_connectors
        from connect_specs.worker_files import read_connector_files

        assert config.offset_file is not None, "a standalone worker has one"
        config = replace(config, offset_file=call.path(config.offset_file))
        first_connectors = read_connector_files(map(call.path, connectors or ()), call.folder)
        allow_modules(config.properties)
        if not has_java_plugins(config.properties):  # these ask Kafka, which may be starting
            check_connectors(first_connectors, config)
        configs = [connector.config for connector in first_connectors]
        with console_for(configs):
            run_until_stopped(
                config,
                warnings,
                on_url=lambda _: _say_slots(config),
                connectors=first_connectors,
                as_json=as_json,
                # the console is the connectors'
                to_stderr=uses_console(configs),
            )


def _worker_file(call: Invocation, file: Path) -> WorkerFile:
    """Reads a worker.properties file. Raises Invalid."""
    from connect_reconciler.cli.runtime_process import ensure_runtime_installed
    from connect_specs.mirror_maker import refuse_mirror_maker
    from connect_specs.worker_files import read_worker_file

    ensure_runtime_installed()
    worker_file = read_worker_file(call.path(file), str(file))
    refuse_mirror_maker(worker_file.properties, str(file))
    return worker_file


def _settings(
    call: Invocation,
    worker_file: WorkerFile,
    slots: int | None,
    master: str | None = None,
    *,
    standalone: bool = False,
) -> tuple[WorkerConfig, list[str]]:
    """Returns the settings of a worker.properties file and the command line, and warnings."""
    from connect_runtime.settings.worker_config import from_properties

    data = call.path(Path(".connect"))
    config, warnings = from_properties(
        worker_file.properties, standalone=standalone, data_folder=data
    )
    config = _with_master(config, slots, master)
    return config, [*warnings, *_reach_warnings(config)]


def _reach_warnings(config: WorkerConfig) -> list[str]:
    """Warns of a REST API that answers everybody who can reach this machine."""
    if not config.open_hosts:
        return []
    hosts = ", ".join(config.open_hosts)
    return [
        f"listeners: everyone who can reach {hosts} can use the REST API and "
        "with it read and write files as this process; rest.authentication=basic requires a "
        "password"
    ]


def down(context: typer.Context, as_json: AsJson = False) -> None:
    """Stop the runtime that `connect up` started here, and its Kafka.

    All data stays in .connect/; the next `connect up` resumes from it.
    """
    project = invocation(context).project()
    broker = _broker(project)
    stopped = _stop_runtime(project)
    if broker is not None:
        may_change()
        _stop("Kafka", broker.pid, broker.started, _BROKER_S)
        stopped.append("kafka")
    if as_json:
        result_json({"stopped": stopped})
    elif stopped:
        result(f"stopped: {', '.join(stopped)}")
    else:
        result("nothing is running here")


def _stop_runtime(project: Project) -> list[str]:
    from connect_reconciler.cli.runtime_process import find_runtime

    running = find_runtime(project)
    if running is None:
        return []
    may_change()
    progress(f"stopping the runtime (pid {running.pid}): tasks flush and commit")
    _stop("the runtime", running.pid, running.started, _RUNTIME_S)
    return ["runtime"]


def _broker(project: Project) -> BrokerRecord | None:
    """Finds the broker that runs for a runtime, not one that another verb has in use."""
    from connect_reconciler.cli.connecting import has_own_broker, is_for_verbs
    from connect_reconciler.cli.project_files import broker_folder
    from connect_runtime.kafka.embedded import find_broker

    if not has_own_broker(project):
        return None
    broker = find_broker(broker_folder(project))
    return None if broker is None or is_for_verbs(project, broker.pid) else broker


def _stop(process: str, pid: int, started: float, patience_s: float) -> None:
    from connect_runtime.kafka.local_processes import end_process

    if not end_process(pid, started, patience_s=patience_s):
        progress(f"{process} did not stop within {patience_s:.0f} s and was killed (SIGKILL)")


def password(
    context: typer.Context,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", help="Replace the password; a running runtime uses it at once."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where the password of the runtime's REST API is kept, never the password itself.

    Required with rest.authentication: basic; the verbs of this project use it automatically.
    """
    from connect_reconciler.cli.project_files import make_data_folder
    from connect_runtime.rest.password import USER, make_password, password_file, read_password

    project = invocation(context).project()
    if rotate:
        make_data_folder(project)
        make_password(project.data, replace=True)
    file = password_file(project.data)
    exists = read_password(project.data) is not None
    if as_json:
        result_json({"user": USER, "file": str(file), "exists": exists, "rotated": rotate})
    elif rotate:
        result(f"the password of user {USER} in {file} was replaced")
    elif exists:
        result(f"the password of user {USER} is in {file}")
    else:
        result(
            f"there is no password yet: `connect up` with rest.authentication: basic creates {file}"
        )
