"""`connect plugins`: which plugins the cluster has, the lock file, and installing Java plugins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid
from connect_specs.plain_text import one_line, table

if TYPE_CHECKING:
    from connect_reconciler.backend.plugins import PluginSource
    from connect_reconciler.render.plugin_changes import PluginChange
    from connect_specs.desired import Project

plugins = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List the cluster's plugins, install Java plugins, or write the lock file.",
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
    """Show the plugins of the cluster. If no runtime is up, of this installation.

    It says where each comes from, as far as this machine has it.
    """
    from connect_reconciler.workflow.plugin_origins import origins_of
    from connect_specs.plugin_definitions import CONNECTORS

    project = invocation(context).project()
    with _source(project) as source:
        entries = [
            {key: plugin[key] for key in ("class", "type", "version") if key in plugin}
            for plugin in source.listed()
            if not connectors or plugin["type"] in CONNECTORS
        ]
        origins = origins_of(project, [_class_of(plugin) for plugin in entries])
    for plugin in entries:
        if _class_of(plugin) in origins:
            plugin["from"] = origins[_class_of(plugin)]
    if as_json:
        result_json({"plugins": entries})
        return
    columns = ("class", "type", "version", "from")
    rows = [[plugin.get(column, "-") for column in columns] for plugin in entries]
    result(table([column.upper() for column in columns], rows))


def _class_of(plugin: Mapping[str, str]) -> tuple[str, str | None]:
    return plugin["class"], plugin.get("version")


@plugins.command("install")
def install_plugin(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="COORDINATE|URL|FILE",
            help="group:artifact:version of a Maven repository, an https address or a file."
            " Without it, all plugins that plugins.lock.json names are installed.",
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="PLUGIN", help="Add it to this installed plugin, such as a JDBC driver."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install Java plugins for this project's runtime, and record them in plugins.lock.json.

    They are unpacked into .connect/plugins, where `connect up` finds them; it also installs what
    the lock names. A coordinate stands for the plugin's archive if there is one, else for its jar
    with the libraries that it needs. CONNECT_IVY_SETTINGS names a mirror with its login.
    """
    from connect_reconciler.cli.project_files import make_data_folder
    from connect_reconciler.cli.runtime_process import find_runtime
    from connect_reconciler.workflow.plugin_installation import install, install_locked

    call = invocation(context)
    project = call.project()
    if source is None and into is not None:
        problem, hint = "--into needs a plugin's file", "name a coordinate, an address or a file"
        raise Invalid(Diagnostic("usage", problem, hint=hint))
    is_up = find_runtime(project) is not None
    make_data_folder(project)
    if source is None:
        changes = install_locked(project, in_use=is_up, say=progress)
        installed, removed = changes.installed, changes.removed
    else:
        progress("installing the plugin")
        plugin = install(project, source, call.folder, into, in_use=is_up, say=progress)
        installed, removed = (plugin.name,), ()
    if as_json:
        result_json({"installed": list(installed), "removed": list(removed)})
        return
    lines = [f"installed {name} in {project.plugins / name}" for name in installed]
    lines += [f"removed {name}: the lock does not name it" for name in removed]
    result("\n".join(map(one_line, lines or ["all plugins of the lock are installed"])))
    if is_up and (installed or removed):
        progress("the runtime that is up uses them after `connect down` and `connect up`")


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
    from connect_specs.plugins_lock import PLUGINS_LOCK, load_lock, load_locked_plugins, lock_text

    project = invocation(context).project()
    desired = load_specs(project)
    earlier = load_lock(project.folder)
    with _source(project) as source:
        lock = locked(source, desired, earlier or PluginSet(), progress)
    changes = plugin_changes(earlier or PluginSet(), lock)
    stale = earlier is None or bool(changes)
    if stale and not check:
        problem, code = "the lock file cannot be written", "plugins-lock.unwritable"
        text = lock_text(lock, load_locked_plugins(project.folder))
        write_file(project.folder / PLUGINS_LOCK, text, problem, code)
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
            stack.enter_context(_java_plugins(project))
            yield InstalledPlugins()
        else:
            yield RestPlugins(stack.enter_context(connection))


@contextmanager
def _java_plugins(project: Project) -> Iterator[None]:
    """Makes the Java plugins of this installation usable, for the context. The JVM that lists them
    asks for Kafka, so the project's own is started."""
    from connect_reconciler.backend.runtime import java_plugins_here
    from connect_reconciler.cli.connecting import backend_of
    from connect_runtime.engine.plugin_path import has_java_plugins
    from connect_runtime.settings.worker_config import from_project

    if project.uses_runtime:
        # Kafka's address makes no difference here
        worker, _ = from_project(project, "localhost:9092", resolve=False)
        if has_java_plugins(worker.properties):
            with backend_of(project) as backend, java_plugins_here(project, backend.kafka):
                yield
            return
    yield


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
