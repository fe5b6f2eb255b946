"""`--explain-vars`: where each value of `values/` comes from, without the secret ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from connect_specs.printable import one_line

if TYPE_CHECKING:
    from connect_specs.desired import Project
    from connect_specs.value_origins import Origin

ExplainVars = Annotated[
    bool,
    typer.Option("--explain-vars", help="Say which file each value of values/ comes from."),
]
_SENSITIVE = "(sensitive)"


def origins_of(project: Project) -> tuple[Origin, ...]:
    """All values of the project; none if it has no values/. Raises Invalid."""
    from connect_specs.value_origins import origins
    from connect_specs.values import load_values

    values = load_values(project.folder, project.env, project.given)
    return () if values is None else tuple(origins(values))


def origins_text(found: tuple[Origin, ...]) -> str:
    """One line a value."""
    lines = []
    for each in found:
        line = f"{each.name} = {_SENSITIVE if each.text is None else each.text}  ({each.where}"
        if each.overrides:
            line += f", overrides {', '.join(map(str, each.overrides))}"
        lines.append(f"{one_line(line)})\n")
    return "".join(lines) or "there are no values: this project has no values/\n"


def origins_json(found: tuple[Origin, ...]) -> list[dict[str, object]]:
    """As `--json` shows them: `value` null and `sensitive` true for those that are secret."""
    return [
        {
            "name": each.name,
            "value": each.text,
            "sensitive": each.text is None,
            "where": str(each.where),
            "overrides": [str(place) for place in each.overrides],
        }
        for each in found
    ]
