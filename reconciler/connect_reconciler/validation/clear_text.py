"""Secrets that a spec holds in clear text, and the references to write in their place. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from connect_reconciler.model.secrets import is_mask
from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed
from connect_specs.plugin_definitions import Definitions, elements, passwords_in
from connect_specs.secrets import holds_secret, holds_text, is_sensitive, without_references

_PROVIDERS: Final = "config.providers"
_NO_NAME: Final = re.compile(r"[^A-Z0-9]+")


def clear_text_secrets(
    project: Project, spec: DesiredConnector, plugins: Definitions
) -> Iterator[Diagnostic]:
    """A warning if the spec holds secrets. Those of `values/` that templates bring do not count."""
    named = passwords_in(spec.config, plugins).union(spec.sensitive)
    keys = [
        key
        for key, text in spec.config.items()
        if is_sensitive(key, text, named) and not is_mask(text)
        if not holds_text(text, spec.secrets) and not _is_elsewhere(text)
    ]
    if keys:
        verb = "holds a secret" if len(keys) == 1 else "hold secrets"
        yield warning(
            "config.secret-in-clear-text",
            f"{spec.name}: {listed(keys)} {verb} in clear text",
            spec.key_locations.get(keys[0], spec.where),
            why="everyone who can read this file, its history or the connector's config can use it",
            hint=_hint(project, spec.name, keys[0]),
        )


def _is_elsewhere(text: str) -> bool:
    """Whether the secret of a value is what its reference stands for, as a JAAS entry may have it:
    nothing else in it looks like one."""
    return without_references(text) != text and not holds_secret(text)


def _hint(project: Project, name: str, key: str) -> str:
    provider = next(iter(elements(project.worker.get(_PROVIDERS, ""))), None)
    if provider is not None:
        return f"write {_reference(provider, project.worker, name, key)} in place of the secret"
    if project.uses_runtime:
        reference = _reference("env", {}, name, key)
        declare = f"declare a provider under cluster: worker: ({_PROVIDERS}) in connect.yaml"
        return f"write {reference} in place of the secret, and {declare}"
    reference = f"${{file:/path/to/secrets.properties:{key}}}"
    return f"write a reference to a provider of the workers in its place, such as {reference}"


def _reference(provider: str, worker: Mapping[str, str], name: str, key: str) -> str:
    """The reference for a provider of Kafka's; of others, which parts they take is not known."""
    kind = worker.get(f"{_PROVIDERS}.{provider}.class", "EnvVar" if provider == "env" else "")
    simple = kind.rpartition(".")[2].removesuffix("ConfigProvider")
    match simple:
        case "EnvVar":
            return f"${{{provider}:{_NO_NAME.sub('_', f'{name}_{key}'.upper()).strip('_')}}}"
        case "File":
            return f"${{{provider}:/path/to/secrets.properties:{key}}}"
        case "Directory":
            return f"${{{provider}:/path/to/folder:{key}}}"
        case _:
            return f"${{{provider}:path:key}}"
