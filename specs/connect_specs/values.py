"""Loads an environment's values: `values/default.yaml`, then `values/<env>.yaml`, then `--var`.

Later ones override earlier ones. Diagnostics quote names in values files, never other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place, warning
from connect_specs.fields import as_texts
from connect_specs.given_values import read_given
from connect_specs.nodes import Map
from connect_specs.text_files import read_text
from connect_specs.value_nodes import Value, map_values, merged, places_of
from connect_specs.yaml_documents import parse_yaml

VALUES_FOLDER = "values"
ENV = "env"
SENSITIVE = "sensitive"

_DEFAULT = "default"
_ENDING = ".yaml"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# texts for YAML's diagnostics that would quote a value
_WITHOUT_QUOTE = {
    "file.tag": "YAML tags are not supported; quote a value that begins with '!'",
    "file.alias": "this alias has no anchor; quote a value that begins with '*'",
    "file.duplicate-key": "this key is given twice",
}
# Minimum similarity of a typo to the name that was meant
_CLOSE = 0.75


@dataclass(frozen=True, slots=True)
class Values:
    """What templates may name, `env` among it, and which environments there are.

    `sensitive` holds the names and globs that the files list under that name; `db.x` is the name of
    a value in a map. `layers` says where each file, and then `--var`, gives which name.
    """

    names: Mapping[str, Value] = field(repr=False)
    env: str | None
    environments: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = ()
    sensitive: tuple[str, ...] = ()
    layers: tuple[Mapping[str, Location], ...] = ()


def load_values(folder: Path, env: str | None, given: Sequence[str] = ()) -> Values | None:
    """The values for the files in `folder`; None if it has no values/: then nothing is a template.

    `given` are `NAME=VALUE` of the command line, which count more than all files. Raises Invalid
    with every problem of the values files, if there are no values of `env`, or for a name in
    `given` that no file has.
    """
    values = folder / VALUES_FOLDER
    if values.is_symlink() and not values.is_dir():
        what = "the symbolic link does not point to a readable folder"
        hint = "correct the link, or remove it if nothing is a template"
        raise Invalid(Diagnostic("file.bad-link", what, Location(f"{VALUES_FOLDER}"), hint=hint))
    if not values.is_dir():
        if env is not None:
            raise Invalid(_unknown(env, ()))
        if given:
            raise Invalid(_nothing_to_give())
        return None
    stems = sorted(path.stem for path in values.glob(f"*{_ENDING}") if _is_given(path))
    environments = tuple(stem for stem in stems if stem != _DEFAULT and not stem.startswith("."))
    if env is not None and env not in environments:
        raise Invalid(_unknown(env, environments))
    problems: list[Diagnostic] = []
    names: dict[str, Value] = {}
    warnings: tuple[Diagnostic, ...] = ()
    sensitive: list[str] = []
    layers: list[dict[str, Location]] = []
    for stem in (_DEFAULT, env):
        root = _read(values, stem, problems) if stem is not None and stem in stems else None
        if root is None:
            continue
        sensitive += _sensitive(root, problems)
        root = Map(tuple(e for e in root.entries if e[0].text != SENSITIVE), root.where)
        if stem != _DEFAULT:
            warnings = tuple(_typos(root, names))
        names = merged(names, map_values(root, problems))
        layers.append(dict(places_of(root)))
    if not problems:
        names, places = read_given(given, names, problems)
        layers.append(places)
    if problems:
        raise Invalid(*by_place(problems))
    names = names if env is None else names | {ENV: env}
    return Values(names, env, environments, warnings, tuple(sensitive), tuple(layers))


def _is_given(path: Path) -> bool:
    """Whether the file exists; a broken link counts, and is reported when it is read."""
    return path.is_file() or path.is_symlink()


def _sensitive(root: Map, problems: list[Diagnostic]) -> list[str]:
    """Returns the names under `sensitive`, as a spec lists config keys."""
    node = root.get(SENSITIVE)
    if node is None:
        return []
    return [scalar.text for scalar in as_texts(node, SENSITIVE, "values", problems)]


def _nothing_to_give() -> Diagnostic:
    what = "--var sets a value, and this project has no values"
    hint = f"name it in {VALUES_FOLDER}/{_DEFAULT}{_ENDING} beside connect.yaml"
    return Diagnostic("values.unknown-name", what, "--var", hint=hint)


def _typos(root: Map, names: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """Warns of names that default.yaml lacks and that are probably typos of its names."""
    given = root.names()
    for key, _ in root.entries:
        free = [name for name in names if name not in given]
        near = get_close_matches(key.text, free, 1, _CLOSE) if key.text not in names else []
        if near:
            what = f"{VALUES_FOLDER}/{_DEFAULT}{_ENDING} has no name {key.text!r}"
            hint = f"did you mean {near[0]!r}?"
            yield warning("values.unknown-name", what, key.where, hint=hint)


def _unknown(env: str, environments: tuple[str, ...]) -> Diagnostic:
    what = f"there is no environment {env!r}"
    if environments:
        hint = f"known here: {', '.join(environments)}"
    else:
        hint = "an environment is a file <name>.yaml in the folder values/ beside connect.yaml"
    return Diagnostic("values.unknown-env", what, Location(f"{VALUES_FOLDER}/"), hint=hint)


def _read(folder: Path, stem: str, problems: list[Diagnostic]) -> Map | None:
    file = f"{VALUES_FOLDER}/{stem}{_ENDING}"
    try:
        parsed = parse_yaml(read_text(folder / f"{stem}{_ENDING}", file), file)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return None
    problems.extend(
        replace(each, what=_WITHOUT_QUOTE.get(each.code, each.what)) for each in parsed.problems
    )
    if not parsed.documents:
        return None
    root = parsed.documents[0]
    if not isinstance(root, Map) or len(parsed.documents) > 1:
        what = "a values file must hold one map"
        problems.append(Diagnostic("values.not-a-map", what, root.where, hint="write name: value"))
        return None
    for key, _ in root.entries:
        if not _NAME.fullmatch(key.text):
            what = "this name cannot be used in a template"
            hint = "use letters, digits and '_', and begin with a letter"
            problems.append(Diagnostic("values.bad-name", what, key.where, hint=hint))
        elif key.text == ENV:
            what = f"{ENV!r} is the name of the environment itself"
            hint = "choose another name"
            problems.append(Diagnostic("values.bad-name", what, key.where, hint=hint))
    return root
