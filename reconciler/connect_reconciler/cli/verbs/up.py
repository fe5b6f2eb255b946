"""`connect up`: this project's runtime, in this terminal or behind it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress, result, result_json
from connect_specs.diagnostics import Diagnostic, Invalid

if TYPE_CHECKING:
    from connect_runtime.rest.settings import RestSettings
    from connect_runtime.worker_config import WorkerConfig
    from connect_specs.desired import Project

Slots = Annotated[
    int | None, typer.Option(min=1, help="How many tasks may run at once on this machine.")
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="The Spark master, such as spark://host:7077.")
]
Detach = Annotated[
    bool, typer.Option("--detach", help="Return once it is healthy, and run on behind.")
]


def up(
    context: typer.Context,
    detach: Detach = False,
    slots: Slots = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Run this project's connectors: Kafka, where connect.yaml says embedded, and the runtime.

    Shows connectors, tasks and rates until Ctrl-C; then tasks flush and commit, Spark ends, and
    Kafka last. Everything stays in .connect/, and the next `up` resumes from it.
    """
    from connect_reconciler.cli.running.extra import ensure_runtime_installed

    project = invocation(context).project()
    _refuse_rest_target(project)
    check_one_master(slots, master)
    ensure_runtime_installed()
    rest, warnings = _check_reach(project)
    if detach:
        _detach(project, slots, master, as_json=as_json)
        for warning in warnings:
            progress(f"warning: {warning}")
        _say_who_can_reach(rest)
    else:
        _run_here(project, slots, master, as_json=as_json)


def check_one_master(slots: int | None, master: str | None) -> None:
    """On a cluster, its workers say how many tasks can run. Raises Invalid."""
    if slots is not None and master is not None:
        what = "--slots and --master exclude each other"
        hint = "--slots counts tasks on this machine; a cluster has what its workers offer"
        raise Invalid(Diagnostic("usage", what, hint=hint))


def with_master(config: WorkerConfig, slots: int | None, master: str | None) -> WorkerConfig:
    """The settings, with what the command line says about Spark."""
    if slots is not None:
        return config.with_slots(slots)
    return config if master is None else replace(config, master=master)


def _refuse_rest_target(project: Project) -> None:
    if project.target is not None:
        from connect_reconciler.cluster.connection import shown_url

        what = "this project is for a Connect cluster that others run; there is nothing to start"
        hint = f"`connect plan` and `connect apply` reach it at {shown_url(project.target)}"
        raise Invalid(Diagnostic("up.rest-target", what, str(project.file), hint=hint))


def _check_reach(project: Project) -> tuple[RestSettings, list[str]]:
    """Who can use REST, and the warnings about the worker's properties. Raises Invalid where REST
    would answer whoever reaches this machine."""
    from connect_runtime.worker_config import from_project

    # what Kafka's address is makes no difference here
    config, warnings = from_project(project, "localhost:9092")
    if config.rest.open_to_others:
        what = (
            f"REST would answer whoever reaches this machine: it listens on {config.listener.host}"
        )
        hint = "add rest.authentication: basic under 'worker', or listen on 127.0.0.1"
        raise Invalid(Diagnostic("up.open-listener", what, str(project.file), hint=hint))
    return config.rest, warnings


def _say_who_can_reach(rest: RestSettings) -> None:
    if not rest.login:
        progress(
            "every user of this machine can use REST; with rest.authentication: basic it asks for "
            "a password"
        )


def _detach(project: Project, slots: int | None, master: str | None, *, as_json: bool) -> None:
    from connect_reconciler.cli.running.detaching import kafka_address, start_detached

    words = [] if slots is None else ["--slots", str(slots)]
    words += [] if master is None else ["--master", master]
    running = start_detached(project, words)
    kafka = kafka_address(project)
    if as_json:
        result_json({"url": running.url, "kafka": kafka, "pid": running.pid})
    else:
        result(f"up: REST at {running.url}, Kafka at {kafka}, pid {running.pid}")


def _run_here(project: Project, slots: int | None, master: str | None, *, as_json: bool) -> None:
    from connect_reconciler.cli.connecting import has_own_broker, own_broker
    from connect_reconciler.cli.running.foreground import run_until_told
    from connect_reconciler.cli.running.keeping import kept_alive
    from connect_reconciler.cli.running.process import announce, claimed
    from connect_reconciler.cli.spec_secrets import sensitive_by_specs
    from connect_runtime.worker_config import from_project

    with ExitStack() as stack:
        stack.enter_context(claimed(project))
        reached = project
        if has_own_broker(project):
            broker = stack.enter_context(own_broker(project, for_up=True))
            stack.enter_context(kept_alive(project, broker))
            reached = replace(project, kafka=broker.client_properties)
        config, warnings = from_project(reached, None)
        config = with_master(_with_free_port(project, config), slots, master)
        _say_who_can_reach(config.rest)
        run_until_told(
            config,
            warnings,
            lambda url: announce(project, url),
            sensitive_by_specs(project),
            project.secrets,
            as_json=as_json,
        )


def _with_free_port(project: Project, config: WorkerConfig) -> WorkerConfig:
    """Nobody asked for the default port, so another will do."""
    from connect_runtime.kafka.ports import is_free

    if "listeners" in project.worker or is_free(config.listener.port):
        return config
    progress(f"port {config.listener.port} is taken: REST listens on a free one")
    return replace(config, listener=replace(config.listener, port=0))
