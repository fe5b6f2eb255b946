"""`connect plugins`: which plugins the cluster has, and the lock file that remembers them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ExitCode
from connect_specs.plain_text import one_line, table

if TYPE_CHECKING:
    from connect_reconciler.backend.plugins import PluginSource
    from connect_reconciler.render.plugin_changes import PluginChange
    from connect_specs.desired import Project

plugins = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List the cluster's plugins, or write the lock file of their keys.",
)


@plugins.command("list")
def list_plugins(
    context: typer.Context,
    connectors: Annotated[
        bool,
        typer.Option("--connectors", help="Show only connectors, no converters or transforms."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the plugins of the cluster. If no runtime is up, of this installation."""
    from connect_specs.plugin_definitions import CONNECTORS

    with _source(invocation(context).project()) as source:
        entries = [
            {key: plugin[key] for key in ("class", "type", "version") if key in plugin}
            for plugin in source.listed()
            if not connectors or plugin["type"] in CONNECTORS
        ]
    if as_json:
        result_json({"plugins": entries})
        return
    rows = [[plugin["class"], plugin["type"], plugin.get("version", "-")] for plugin in entries]
    result(table(["CLASS", "TYPE", "VERSION"], rows))


@plugins.command("lock")
def lock_plugins(
    context: typer.Context,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit with 4 if the lock file is out of date."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Write plugins.lock.json. It holds the keys of connectors, and of other plugins in the specs.

    With it, `connect validate` and `connect plan` check configs and redact passwords when the
    cluster is not reachable. Shows what a plugin upgrade changes.
    """
    from connect_reconciler.backend.plugins import locked
    from connect_reconciler.cli.project_files import write_file
    from connect_reconciler.render.plugin_changes import plugin_changes
    from connect_specs.loader import load_specs
    from connect_specs.plugin_definitions import PluginSet
    from connect_specs.plugins_lock import PLUGINS_LOCK, load_lock, lock_text

    project = invocation(context).project()
    desired = load_specs(project)
    earlier = load_lock(project.folder)
    with _source(project) as source:
        lock = locked(source, desired, earlier or PluginSet(), progress)
    changes = plugin_changes(earlier or PluginSet(), lock)
    stale = earlier is None or bool(changes)
    if stale and not check:
        problem, code = "the lock file cannot be written", "plugins-lock.unwritable"
        write_file(project.folder / PLUGINS_LOCK, lock_text(lock), problem, code)
    if as_json:
        result_json({"up_to_date": not stale, "changes": list(map(_json, changes))})
    else:
        result(_text(changes, stale=stale, check=check, count=len(lock.plugins)))
    return ExitCode.CHANGES if check and stale else ExitCode.OK


@contextmanager
def _source(project: Project) -> Iterator[PluginSource]:
    from connect_reconciler.backend.plugins import InstalledPlugins, RestPlugins
    from connect_reconciler.cli.connecting import backend_of, has_own_broker
    from connect_reconciler.cli.runtime_process import find_runtime
    from connect_runtime.plugins.modules import allow_modules

    allow_modules(project.worker)
    with ExitStack() as stack:
        connection = None
        # Nobody leads where the project's own Kafka does not even run
        if not has_own_broker(project) or find_runtime(project) is not None:
            connection = stack.enter_context(backend_of(project)).rest()
        if connection is None:
            progress("no runtime is up: showing the plugins of this installation")
            yield InstalledPlugins()
        else:
            yield RestPlugins(stack.enter_context(connection))


def _text(changes: tuple[PluginChange, ...], *, stale: bool, check: bool, count: int) -> str:
    from connect_specs.plugins_lock import PLUGINS_LOCK

    lines = []
    for change in changes:
        lines.append(one_line(f"{change.type} {change.class_name}: {change.summary}"))
        lines += [f"  {one_line(line)}" for line in change.lines]
    if not stale:
        end = f"{PLUGINS_LOCK} is up to date: {count} plugins"
    elif check:
        end = f"{PLUGINS_LOCK} is out of date: `connect plugins lock` writes it again"
    else:
        end = f"wrote {PLUGINS_LOCK}: {count} plugins"
    return "\n".join([*lines, end])


def _json(change: PluginChange) -> dict[str, Any]:
    return {
        "class": change.class_name,
        "type": change.type,
        "what": change.summary,
        "keys": list(change.lines),
    }
