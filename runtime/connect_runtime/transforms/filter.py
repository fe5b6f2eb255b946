"""Drops records. Meant to be used with a predicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime.api import ConfigDef
from connect_runtime.api.transforms import R
from connect_runtime.transforms.columns import Columns, ColumnTransformation

_CONFIG: Final = ConfigDef()


class Filter(ColumnTransformation):
    """Drops every record that it gets."""

    def config(self) -> ConfigDef:
        """Has no options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Has no options."""

    def apply(self, record: R) -> R | None:
        """Drops the record."""
        return None

    def apply_columns(self, columns: Columns) -> None:
        """Drops all records."""
        columns.keep([False] * len(columns))
