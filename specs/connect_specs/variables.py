"""Resolves `${env:NAME}` in connect.yaml from the environment of the process.

Only where connect.yaml says how to reach a cluster. In a connector's config `${...}` is a reference
that Connect resolves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from connect_specs.diagnostics import Diagnostic
from connect_specs.nodes import Map, Node, Scalar, Sequence

_REFERENCE = re.compile(r"\$\{env:([^}]*)\}")
_OF_A_WORKER = re.compile(r"\$\{(?!env:)[A-Za-z]\w*:[^}]*\}")


def resolve_variables(node: Node, variables: Mapping[str, str], problems: list[Diagnostic]) -> Node:
    """The node with its values' variables filled in. Such a value is text: never null or a number.

    One that is not set is added to `problems`, and stands for a text of no meaning; so is a
    reference that only a worker could resolve.
    """
    if isinstance(node, Map):
        entries = (
            (key, resolve_variables(each, variables, problems)) for key, each in node.entries
        )
        return Map(tuple(entries), node.where)
    if isinstance(node, Sequence):
        items = (resolve_variables(each, variables, problems) for each in node.items)
        return Sequence(tuple(items), node.where)
    return _resolved(node, variables, problems)


def _resolved(scalar: Scalar, variables: Mapping[str, str], problems: list[Diagnostic]) -> Scalar:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in variables:
            return variables[name]
        what = f"the environment variable {name!r} is not set"
        hint = f"set it where connect runs, such as: export {name}=..."
        problems.append(Diagnostic("project.missing-variable", what, scalar.where, hint=hint))
        return match[0]

    if foreign := _OF_A_WORKER.search(scalar.text):
        what = f"{foreign[0]} has no effect here: no worker resolves connect.yaml"
        hint = "only ${env:NAME} works, a variable of the environment in which connect runs"
        problems.append(Diagnostic("project.unknown-reference", what, scalar.where, hint=hint))
    text = _REFERENCE.sub(value, scalar.text)
    return scalar if text == scalar.text else Scalar(text, scalar.where)
