"""Loads an environment's values: `values/default.yaml`, then `values/<env>.yaml`, then `--var`.

Later ones override earlier ones. Whole numbers, true and false have types, so that templates can
count and decide; every other scalar is text as written. Diagnostics quote names in values files,
never other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeAlias

from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place, warning
from connect_specs.documents import Map, Node, Scalar, Sequence, is_null, typed
from connect_specs.fields import Fields, did_you_mean
from connect_specs.text_files import read_text
from connect_specs.yaml_documents import parse_yaml

VALUES_FOLDER: Final = "values"
ENV: Final = "env"
SENSITIVE: Final = "sensitive"
OPTION: Final = "--var"

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value]"

_DEFAULT: Final = "default"
_ENDING: Final = ".yaml"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NULLS: Final = frozenset({"~", "null", "Null", "NULL"})
# texts for YAML's diagnostics that would quote a value
_WITHOUT_QUOTE: Final = {
    "file.tag": "YAML tags are not supported; quote a value that begins with '!'",
    "file.alias": "this alias has no anchor; quote a value that begins with '*'",
    "file.duplicate-key": "this key is given twice",
}
# Minimum similarity of a typo to the name that was meant
_CLOSE: Final = 0.75


@dataclass(frozen=True, slots=True)
class Values:
    """The names that templates may use, `env` among them, and the environments that exist.

    `sensitive` holds the names and globs that the files list under that name; `db.x` is the name of
    a value in a map. `layers` holds the locations of names for each file, and then for `--var`.
    """

    names: Mapping[str, Value] = field(repr=False)
    env: str | None
    environments: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = ()
    sensitive: tuple[str, ...] = ()
    layers: tuple[Mapping[str, Location], ...] = ()


def load_values(folder: Path, env: str | None, given: Iterable[str] = ()) -> Values | None:
    """Returns the values for the files in `folder`; None if it has no values/: then nothing is a
    template.

    `given` are `NAME=VALUE` of the command line, which override all files. Raises Invalid with
    every problem of the values files, if there are no values of `env`, or for a name in `given`
    that no file has.
    """
    values = folder / VALUES_FOLDER
    if not values.is_dir():
        _check_unused(values, env, tuple(given))
        return None
    stems = sorted(path.stem for path in values.glob(f"*{_ENDING}") if _is_given(path))
    environments = tuple(stem for stem in stems if stem != _DEFAULT and not stem.startswith("."))
    if env is not None and env not in environments:
        raise Invalid(_unknown_env(env, environments))
    problems: list[Diagnostic] = []
    names: dict[str, Value] = {}
    warnings: tuple[Diagnostic, ...] = ()
    sensitive: list[str] = []
    layers: list[dict[str, Location]] = []
    for stem in (_DEFAULT, env):
        root = _read(values, stem, problems) if stem is not None and stem in stems else None
        if root is None:
            continue
        fields = Fields(root, None, problems, code="values", noun="the file")
        sensitive += (name.text for name in fields.texts(SENSITIVE))
        root = Map(tuple(e for e in root.entries if e[0].text != SENSITIVE), root.location)
        if stem != _DEFAULT:
            warnings = tuple(_typos(root, names))
        names = _merged(names, _map_values(root, problems))
        layers.append(dict(_locations(root)))
    if not problems:
        names, locations = _with_options(names, given, problems)
        layers.append(locations)
    if problems:
        raise Invalid(*by_place(problems))
    names = names if env is None else names | {ENV: env}
    return Values(names, env, environments, warnings, tuple(sensitive), tuple(layers))


def _check_unused(values: Path, env: str | None, given: tuple[str, ...]) -> None:
    """Raises Invalid if the project has no folder of values, but something needs one."""
    if values.is_symlink():
        message = "the symbolic link does not point to a readable folder"
        hint = "correct the link, or remove it if nothing is a template"
        raise Invalid(Diagnostic("file.bad-link", message, Location(VALUES_FOLDER), hint=hint))
    if env is not None:
        raise Invalid(_unknown_env(env, ()))
    if given:
        message = f"{OPTION} sets a value, and this project has no values"
        hint = f"name it in {VALUES_FOLDER}/{_DEFAULT}{_ENDING} beside connect.yaml"
        raise Invalid(Diagnostic("values.unknown-name", message, OPTION, hint=hint))


def _is_given(path: Path) -> bool:
    """Returns True if the file exists; a broken link counts, and is reported when it is read."""
    return path.is_file() or path.is_symlink()


def _typos(root: Map, names: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """Warns of names that default.yaml lacks and that are probably typos of its names."""
    for key, _ in root.entries:
        free = [name for name in names if name not in root.names()]
        near = get_close_matches(key.text, free, 1, _CLOSE) if key.text not in names else []
        if near:
            message = f"{VALUES_FOLDER}/{_DEFAULT}{_ENDING} has no name {key.text!r}"
            hint = f"did you mean {near[0]!r}?"
            yield warning("values.unknown-name", message, key.location, hint=hint)


def _unknown_env(env: str, environments: tuple[str, ...]) -> Diagnostic:
    if environments:
        hint = f"known here: {', '.join(environments)}"
    else:
        hint = "an environment is a file <name>.yaml in the folder values/ beside connect.yaml"
    message, location = f"there is no environment {env!r}", Location(f"{VALUES_FOLDER}/")
    return Diagnostic("values.unknown-env", message, location, hint=hint)


def _read(folder: Path, stem: str, problems: list[Diagnostic]) -> Map | None:
    file = f"{VALUES_FOLDER}/{stem}{_ENDING}"
    try:
        parsed = parse_yaml(read_text(folder / f"{stem}{_ENDING}", file), file)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return None
    problems.extend(
        replace(problem, what=_WITHOUT_QUOTE.get(problem.code, problem.what))
        for problem in parsed.problems
    )
    if not parsed.documents:
        return None
    root = parsed.documents[0]
    if not isinstance(root, Map) or len(parsed.documents) > 1:
        message, hint = "a values file must hold one map", "write name: value"
        problems.append(Diagnostic("values.not-a-map", message, root.location, hint=hint))
        return None
    for key, _ in root.entries:
        if not _NAME.fullmatch(key.text):
            message = "this name cannot be used in a template"
            hint = "use letters, digits and '_', and begin with a letter"
        elif key.text == ENV:
            message = f"{ENV!r} is the name of the environment itself"
            hint = "choose another name"
        else:
            continue
        problems.append(Diagnostic("values.bad-name", message, key.location, hint=hint))
    return root


# --- nodes as values ---


def value_of(node: Node, problems: list[Diagnostic]) -> Value:
    """Returns the value of a node; null is added to `problems`."""
    if isinstance(node, Map):
        return _map_values(node, problems)
    if isinstance(node, Sequence):
        return [value_of(item, problems) for item in node.items]
    if is_null(node):
        message, hint = "a value is null", 'write "" for an empty text, or remove the name'
        problems.append(Diagnostic("values.null", message, node.location, hint=hint))
    return _scalar_value(node)


def _map_values(node: Map, problems: list[Diagnostic]) -> dict[str, Value]:
    return {key.text: value_of(value, problems) for key, value in node.entries}


def _scalar_value(node: Scalar) -> str | int | bool:
    try:
        value = typed(node)
    except ValueError:
        return node.text
    return value if isinstance(value, int) else node.text


def _merged(lower: Mapping[str, Value], upper: Mapping[str, Value]) -> dict[str, Value]:
    """Returns both; maps in both are merged, else `upper` wins."""
    names = dict(lower)
    for name, value in upper.items():
        inner = names.get(name)
        if isinstance(inner, dict) and isinstance(value, dict):
            value = _merged(inner, value)
        names[name] = value
    return names


def _locations(node: Map, prefix: str = "") -> Iterator[tuple[str, Location]]:
    """Yields the location of each value of the map, by dotted name; a list is one value."""
    for key, value in node.entries:
        name = f"{prefix}{key.text}"
        if isinstance(value, Map) and value.entries:
            yield from _locations(value, f"{name}.")
        else:
            yield name, key.location


def flat(values: Mapping[str, Value], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yields each value by dotted name; a list, or an empty map, is one value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


# --- values of the command line, `--var NAME=VALUE`, typed like those of values files ---


def _with_options(
    names: Mapping[str, Value], options: Iterable[str], problems: list[Diagnostic]
) -> tuple[dict[str, Value], dict[str, Location]]:
    """Returns `names` with the values of the command line, and their locations; the last of a name
    wins.

    A dotted name reaches into a map: `db.host=localhost`. The value of a list or a map is YAML, and
    replaces it: `regions=[eu, us]`. Mistakes are added to `problems`, which never hold a value.
    """
    values, locations = dict(names), dict[str, Location]()
    for option in options:
        name, sign, text = option.partition("=")
        location = Location(f"{OPTION} {name}" if sign else OPTION)
        if not sign or not name:
            message, hint = "this is not NAME=VALUE", f"write {OPTION} NAME=VALUE"
            problems.append(Diagnostic("values.bad-var", message, location, hint=hint))
            continue
        keys = name.split(".")
        default = _value_at(values, keys)
        if default is None:
            message = f"no values file has the name {name!r}"
            paths = {key for key, _ in flat(values)} | values.keys()
            hint = did_you_mean(name, paths) if paths else "add it to values/default.yaml"
            problems.append(Diagnostic("values.unknown-name", message, location, hint=hint))
            continue
        value = _option_value(text, default, location, problems)
        if value is not None:
            values = _replaced(values, keys, value)
            locations[name] = location
    return values, locations


def _value_at(names: Mapping[str, Value], keys: list[str]) -> Value | None:
    value: Value | None = dict(names)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _option_value(
    text: str, default: Value, location: Location, problems: list[Diagnostic]
) -> Value | None:
    if not isinstance(default, (list, dict)):
        if text in _NULLS:
            message, hint = "the value is null", f"write {location.file}= for an empty text"
            problems.append(Diagnostic("values.null", message, location, hint=hint))
            return None
        return _scalar_value(Scalar(text, location, plain=True)) if text else text
    kind, shape = (
        ("map", "{name: value}") if isinstance(default, dict) else ("list", "[first, second]")
    )
    parsed = parse_yaml(text, location.file)
    node = parsed.documents[0] if len(parsed.documents) == 1 and not parsed.problems else None
    if isinstance(node, Map if kind == "map" else Sequence):
        nulls: list[Diagnostic] = []
        value = value_of(node, nulls)
        problems.extend(replace(problem, where=location) for problem in nulls)
        return value
    message = f"the values files have a {kind} of this name, and this value is not a {kind}"
    hint = f"write it in YAML: {location.file}='{shape}'"
    problems.append(Diagnostic("values.bad-var", message, location, hint=hint))
    return None


def _replaced(names: Mapping[str, Value], keys: list[str], value: Value) -> dict[str, Value]:
    first, *inner_keys = keys
    if not inner_keys:
        return {**names, first: value}
    inner = names[first]
    assert isinstance(inner, dict), "the name was found there"
    return {**names, first: _replaced(inner, inner_keys, value)}
