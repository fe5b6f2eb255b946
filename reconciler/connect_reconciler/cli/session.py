"""The input of a verb: the project, its values and its secrets. And its names, for a shell.

Completions are read from the project's files alone, never from a cluster. Files that cannot be read
offer none.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from connect_specs.diagnostics import ConnectError
from connect_specs.plain_text import one_line

if TYPE_CHECKING:
    from connect_reconciler.backend.observe.plugin_facts import SpecSecrets
    from connect_specs.desired import Project
    from connect_specs.value_secrets import Origin


# The keys of a connector whose spec cannot be read: any of them may be sensitive
_EVERYTHING = ("*",)
_REREAD_S = 5.0
# The variable that the shells' scripts set
COMPLETE = "_CONNECT_COMPLETE"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The folder that a verb runs in, and the environment whose values its files use.

    `assignments` are the values of `--var`, which override those of the environment. Paths that the
    user writes are relative to the folder.
    """

    folder: Path
    env: str | None = None
    assignments: tuple[str, ...] = field(default=(), repr=False)

    def project(self) -> Project:
        """Returns the project of the nearest connect.yaml above. Raises Invalid."""
        from connect_specs.project import find_project, load_project

        return load_project(find_project(self.folder), self.env, given=self.assignments)

    def in_environment(self, variables: Mapping[str, str]) -> Self:
        """Returns the invocation with the environment of CONNECT_ENV if `--env` is not given."""
        return replace(self, env=self.env or variables.get("CONNECT_ENV") or None)

    def path(self, relative: Path) -> Path:
        """Returns a path that the user wrote, resolved against the folder."""
        return self.folder / relative


def invocation(context: typer.Context) -> Invocation:
    """Returns the invocation that the root command put into the context."""
    call = context.obj
    assert isinstance(call, Invocation), "the root command ran first"
    return call


def origins_of(project: Project) -> tuple[Origin, ...]:
    """Returns all values of the project; none if it has no values/. Raises Invalid."""
    from connect_specs.value_secrets import origins
    from connect_specs.values import load_values

    values = load_values(project.folder, project.env, project.given)
    return () if values is None else tuple(origins(values))


def origins_text(values: tuple[Origin, ...]) -> str:
    """Returns one line per value."""
    from connect_specs.secrets import SENSITIVE

    lines = []
    for value in values:
        text = SENSITIVE if value.text is None else value.text
        line = f"{value.name} = {text}  ({value.where}"
        if value.overrides:
            line += f", overrides {', '.join(map(str, value.overrides))}"
        lines.append(f"{one_line(line)})\n")
    return "".join(lines) or "there are no values: this project has no values/\n"


def origins_json(values: tuple[Origin, ...]) -> list[dict[str, object]]:
    """Returns the values as `--json` shows them: for secrets, `value` is null and `sensitive`
    true."""
    return [
        {
            "name": value.name,
            "value": value.text,
            "sensitive": value.text is None,
            "where": str(value.where),
            "overrides": [str(place) for place in value.overrides],
        }
        for value in values
    ]


def secrets_of_specs(project: Project) -> SpecSecrets:
    """Returns the secrets of the specs, which are read again after 5 s."""
    from connect_reconciler.backend.observe.plugin_facts import SpecSecrets

    cache: list[tuple[float, dict[str, tuple[str, ...]] | None]] = []

    def sensitive(name: str) -> Collection[str]:
        time_s = time.monotonic()
        if not cache or time_s - cache[0][0] > _REREAD_S:
            cache[:] = [(time_s, _sensitive_keys(project))]
        keys = cache[0][1]
        return _EVERYTHING if keys is None else keys.get(name, ())

    return SpecSecrets(sensitive, project.secrets)


def _sensitive_keys(project: Project) -> dict[str, tuple[str, ...]] | None:
    """Returns the keys that specs call sensitive, by connector; None if specs cannot be read."""
    from connect_specs.loader import load_specs

    try:
        connectors = load_specs(project).connectors
    except ConnectError:
        # Other verbs report the mistakes in specs
        return None
    return {name: spec.sensitive for name, spec in connectors.items()}


def complete(command: Any) -> int:
    """Prints completions for a shell's script; returns the exit code."""
    from typer._completion_classes import completion_init
    from typer.completion import shell_complete

    completion_init()
    try:
        return shell_complete(command, {}, "connect", COMPLETE, os.environ[COMPLETE])
    except Exception:
        # an error message in the middle of a command line is of no help
        return 1


def connector_names(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Returns the connectors of the specs that start with `incomplete`, each with its file."""
    from connect_specs.loader import read_specs

    try:
        desired, _ = read_specs(_invocation(context).project())
    except Exception:
        return []
    return [
        (name, spec.where.file)
        for name, spec in desired.connectors.items()
        if name.startswith(incomplete)
    ]


def environments(context: typer.Context, incomplete: str) -> list[str]:
    """Returns the environments that have a file in values/."""
    from connect_specs.project import find_project
    from connect_specs.values import load_values

    try:
        values = load_values(find_project(_invocation(context).folder).parent, None)
    except Exception:
        return []
    names = () if values is None else values.environments
    return [name for name in names if name.startswith(incomplete)]


def _invocation(context: typer.Context) -> Invocation:
    call = context.obj if isinstance(context.obj, Invocation) else Invocation(Path.cwd())
    return call.in_environment(os.environ)
