"""What every verb is given: where it was started and for which environment, and so the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

if TYPE_CHECKING:
    from connect_specs.desired import Project

AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The folder that a verb runs in, and the environment whose values its files are read with.

    `given` are the values that `--var` sets over those of the environment. A file that the user
    names is relative to the folder.
    """

    folder: Path
    env: str | None = None
    given: tuple[str, ...] = field(default=(), repr=False)

    def project(self) -> Project:
        """The project of the nearest connect.yaml above. Raises Invalid."""
        from connect_specs.project import find_project, load_project

        return load_project(find_project(self.folder), self.env, given=self.given)

    def in_environment(self, variables: Mapping[str, str]) -> Self:
        """The same; CONNECT_ENV says for which environment, where no option does."""
        return replace(self, env=self.env or variables.get("CONNECT_ENV") or None)

    def path(self, named: Path) -> Path:
        """Where a path that the user wrote leads."""
        return self.folder / named


def invocation(context: typer.Context) -> Invocation:
    """The invocation that the root command put into the context."""
    found = context.obj
    assert isinstance(found, Invocation), "the root command ran first"
    return found
