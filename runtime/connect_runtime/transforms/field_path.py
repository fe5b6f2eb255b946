"""Reads paths to fields within fields (KIP-821): `a.b`, and with dots in names, `` `a.b`.c ``."""

from __future__ import annotations

from typing import Final

from connect_runtime.api import ConfigDef, ConfigError, ConfigType, Importance, OneOf

FIELD_SYNTAX_VERSION: Final = "field.syntax.version"


def define_field_syntax(config: ConfigDef) -> ConfigDef:
    """Adds the key `field.syntax.version`."""
    return config.define(
        FIELD_SYNTAX_VERSION,
        ConfigType.STRING,
        "V1",
        validator=OneOf.any_case("V1", "V2"),
        importance=Importance.HIGH,
        doc="Defines the version of the syntax to access fields. If set to <code>V1</code>, then "
        "the field paths are limited to access the elements at the root level of the struct or "
        "map. If set to <code>V2</code>, the syntax will support accessing nested elements. To "
        "access nested elements, dotted notation is used. If dots are already included in the "
        "field name, then backtick pairs can be used to wrap field names containing dots. E.g. to "
        'access the subfield <code>baz</code> from a field named "foo.bar" in a struct/map the '
        'following format can be used to access its elements: "<code>foo.bar</code>.baz".',
    )


def field_path(text: str, version: str) -> tuple[str, ...]:
    """Returns the names from the outermost field inwards. Raises `ConfigError`."""
    return (text,) if version.upper() == "V1" else _steps(text)


def _steps(path: str) -> tuple[str, ...]:
    steps: list[str] = []
    at = 0
    while 0 <= at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
        else:
            dot = path.find(".", at)
            step, at = (path[at:], -1) if dot < 0 else (path[at:dot], dot + 1)
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(path: str, start: int) -> tuple[str, int]:
    """Returns the step that begins with a backtick, and where the next one begins.

    A backtick ends the step only before a dot or at the end, and not after a backslash. That
    backslash is dropped before a dot; everything else is kept."""
    step, begin, at = "", start + 1, start + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, start)
        escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if escaped:
                raise _incomplete(path, start)
            return step + path[begin:at], at + 1
        if path[at + 1] == ".":
            if not escaped:
                return step + path[begin:at], at + 2
            step += path[begin : at - 1] + "`"
            begin = at + 1
        at += 1


def _incomplete(path: str, start: int) -> ConfigError:
    return ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick"
        f" at position {start} to escape it"
    )
