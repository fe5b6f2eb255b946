"""Reads tables of config keys: text files with a line for each key, in sections.

The first line of a file names its columns. `!` is no default, `-` null or nothing, `''` the empty
text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from connect_runtime.api import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    Recommender,
    Validator,
    Width,
)

Row = Mapping[str, str]

_DEFAULTS: Final[Mapping[str, Any]] = {"!": NO_DEFAULT, "-": None, "''": ""}
_ROW: Final = {"width": "NONE", "group": "-", "order": "-1"}


def option_table(
    path: Path, section: str, validators: Mapping[str, Validator] | None = None
) -> ConfigDef:
    """Returns the keys of a section, with `validators` by key."""
    definitions = ConfigDef()
    for row in sections(path)[section]:
        define(definitions, row, validator=(validators or {}).get(row["name"]))
    return definitions


@cache
def sections(path: Path) -> Mapping[str, Sequence[Row]]:
    """Returns the rows of a file by section."""
    heading, *lines = path.read_text().splitlines()
    columns = heading.removeprefix("# ").split(" | ")
    tables: dict[str, list[Row]] = {}
    rows: list[Row] = []
    for line in lines:
        if line.startswith("["):
            rows = tables[line.strip("[]")] = []
        else:
            rows.append(dict(zip(columns, line.split(" | "), strict=True)))
    return tables


def default_of(row: Row) -> Any:
    """Returns the default of a key."""
    return _DEFAULTS.get(row["default"], row["default"])


def define(
    definitions: ConfigDef,
    row: Row,
    *,
    validator: Validator | None = None,
    recommender: Recommender | None = None,
    **computed: Any,
) -> None:
    """Adds the key of a row. `computed` can have its `default` and its `documentation`."""
    row = {**_ROW, **row}
    definitions.define(
        row["name"],
        ConfigType[row["type"]],
        computed["default"] if "default" in computed else default_of(row),
        validator=validator,
        importance=Importance[row["importance"]],
        doc=computed.get("documentation") or row["documentation"],
        group=None if row["group"] == "-" else row["group"],
        order=int(row["order"]),
        width=Width[row["width"]],
        display_name=row.get("display"),
        recommender=recommender,
    )
