"""Values of an environment: `values/default.yaml` and over it `values/<env>.yaml`.

What a diagnostic says never holds a text of a values file but the names in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.nodes import Map, Node, Scalar, Sequence, is_null, typed
from connect_specs.secret_names import is_secret_name
from connect_specs.text_files import read_text
from connect_specs.yaml_documents import parse_yaml

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value]"

VALUES_FOLDER = "values"
ENV = "env"
HIDDEN = "(hidden)"

_DEFAULT = "default"
_ENDING = ".yaml"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# these diagnostics of YAML quote what they are about
_WITHOUT_QUOTE = {
    "file.tag": "YAML tags are not supported; quote a value that begins with '!'",
    "file.alias": "this alias stands for nothing; quote a value that begins with '*'",
    "file.duplicate-key": "this key is given twice",
}
# Near enough to be a slip of the pen
_CLOSE = 0.75
_PIECE = re.compile(r"[\w.-]{4,}")


@dataclass(frozen=True, slots=True)
class Values:
    """What templates may name, `env` among it, and which environments there are."""

    names: Mapping[str, Value] = field(repr=False)
    env: str | None
    environments: tuple[str, ...]
    warnings: tuple[Diagnostic, ...] = ()

    def hide(self, problems: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The diagnostics without values that have a secret's name."""
        secrets = sorted(set(_secrets(self.names)), key=len, reverse=True)
        return [
            replace(
                each,
                what=_hidden(each.what, secrets),
                why=_hidden(each.why, secrets),
                hint=_hidden(each.hint, secrets),
            )
            for each in problems
        ]


def load_values(folder: Path, env: str | None) -> Values | None:
    """The values for the files in `folder`; None if it has no values/: then nothing is a template.

    Raises Invalid with every problem of the values files, or if there are no values of `env`.
    """
    values = folder / VALUES_FOLDER
    if not values.is_dir():
        if env is not None:
            raise Invalid(_unknown(env, ()))
        return None
    stems = sorted(path.stem for path in values.glob(f"*{_ENDING}") if path.is_file())
    environments = tuple(stem for stem in stems if stem != _DEFAULT and not stem.startswith("."))
    if env is not None and env not in environments:
        raise Invalid(_unknown(env, environments))
    problems: list[Diagnostic] = []
    names: dict[str, Value] = {}
    warnings: tuple[Diagnostic, ...] = ()
    for stem in (_DEFAULT, env):
        if stem is not None and stem in stems:
            root = _read(values, stem, problems)
            if stem != _DEFAULT and root is not None:
                warnings = tuple(_slips(root, names))
            names = names if root is None else _over(names, _map(root, problems))
    if problems:
        raise Invalid(*by_place(problems))
    names = names if env is None else names | {ENV: env}
    return Values(names, env, environments, warnings)


def _slips(root: Map, names: Mapping[str, Value]) -> Iterator[Diagnostic]:
    """Names of an environment that the default lacks, and that are nearly one of its others."""
    given = root.names()
    for key, _ in root.entries:
        free = [name for name in names if name not in given]
        near = get_close_matches(key.text, free, 1, _CLOSE) if key.text not in names else []
        if near:
            what = f"{key.text!r} is no name of {VALUES_FOLDER}/{_DEFAULT}{_ENDING}"
            hint = f"did you mean {near[0]!r}?"
            yield Diagnostic("values.unknown-name", what, key.where, hint=hint)


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


def _map(node: Map, problems: list[Diagnostic]) -> dict[str, Value]:
    return {key.text: _value(value, problems) for key, value in node.entries}


def _value(node: Node, problems: list[Diagnostic]) -> Value:
    """Whole numbers, true and false have types, so that templates can count and decide; every other
    scalar is text as written."""
    if isinstance(node, Map):
        return _map(node, problems)
    if isinstance(node, Sequence):
        return [_value(item, problems) for item in node.items]
    if is_null(node):
        what, hint = "a value is null", 'write "" for an empty text, or remove the name'
        problems.append(Diagnostic("values.null", what, node.where, hint=hint))
    return _scalar(node)


def _scalar(node: Scalar) -> str | int | bool:
    try:
        value = typed(node)
    except ValueError:
        return node.text
    return value if isinstance(value, int) else node.text


def _over(below: dict[str, Value], above: Mapping[str, Value]) -> dict[str, Value]:
    """Both; where both have a map they are merged, else `above` counts."""
    found = dict(below)
    for name, value in above.items():
        other = found.get(name)
        if isinstance(other, dict) and isinstance(value, dict):
            found[name] = _over(other, value)
        else:
            found[name] = value
    return found


def _secrets(value: Value | Mapping[str, Value], *, is_secret: bool = False) -> Iterator[str]:
    """Every text below a secret's name, and the pieces that YAML may tear it into."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _secrets(inner, is_secret=is_secret or is_secret_name(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, is_secret=is_secret)
    elif is_secret and not isinstance(value, bool) and str(value).strip():
        text = str(value)
        yield from (text, text.strip(), repr(text)[1:-1], *_PIECE.findall(text))


def _hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text
