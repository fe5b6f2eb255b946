"""Finds and reads connect.yaml: the cluster that a project is for, and the places of its specs.

Also consequences.yaml beside it: a list whose entries give config keys (`match`), the consequence
of changing them (`consequence`) and the text that a plan shows (`says`). These rules come before
the built-in ones. Every mistake is reported at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

from connect_specs.client_properties import check_client_properties
from connect_specs.connector_spec import ConfigValues, read_config
from connect_specs.desired import (
    ConnectorKind,
    Consequence,
    ConsequenceRule,
    DeleteLimits,
    Project,
    RestTarget,
)
from connect_specs.diagnostics import Diagnostic, Invalid, Location, Severity, by_place
from connect_specs.documents import Map, Node, Scalar, Sequence, rendered_source
from connect_specs.fields import Fields
from connect_specs.names import ClusterTopics, is_topic_name
from connect_specs.rest_target import read_target
from connect_specs.text_files import read_text, real_path
from connect_specs.value_secrets import redacted, secret_texts
from connect_specs.values import load_values
from connect_specs.yaml_documents import parse_yaml

PROJECT_FILE: Final = "connect.yaml"
CONSEQUENCES_FILE: Final = "consequences.yaml"
DEFAULT_SPECS: Final = ("connectors/",)

_CODE: Final = "project"
_FIELDS: Final = ("project", "cluster", "specs", "policies", "max_deletes", "validate")
_CLUSTER: Final = ("group.id", "kafka", "target", "topics", "worker")
_TOPICS: Final = ("config", "offsets", "status", "assignments", "ledger")
_SET_ELSEWHERE: Final = {
    "group.id": "cluster.group.id",
    "bootstrap.servers": "cluster.kafka",
    "config.storage.topic": "cluster.topics.config",
    "offset.storage.topic": "cluster.topics.offsets",
    "status.storage.topic": "cluster.topics.status",
}
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
_CONSEQUENCES: Final[tuple[Consequence, ...]] = get_args(Consequence)
_KINDS: Final[tuple[ConnectorKind, ...]] = get_args(ConnectorKind)
_VARIABLE = re.compile(r"\$\{env:([^}]*)\}")
_WORKER_REFERENCE = re.compile(r"\$\{(?!env:)[A-Za-z]\w*:[^}]*\}")


def find_project(start: Path) -> Path:
    """Returns the connect.yaml in `start` or the nearest folder above it. Raises Invalid."""
    file = next(_project_files(start), None)
    if file is not None:
        return file
    message = f"there is no {PROJECT_FILE} in this folder or above it"
    hint = "run `connect init` to create one, or change to the project's folder"
    raise Invalid(Diagnostic("project.not-found", message, Location(str(start)), hint=hint))


def has_project(start: Path) -> bool:
    """Returns whether `find_project` finds one."""
    return next(_project_files(start), None) is not None


def _project_files(start: Path) -> Iterator[Path]:
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / PROJECT_FILE
        # A broken link is reported when it is read
        if file.is_file() or file.is_symlink():
            yield file


def load_project(
    file: Path,
    env: str | None = None,
    *,
    given: tuple[str, ...] = (),
    variables: Mapping[str, str] = os.environ,
) -> Project:
    """Returns a connect.yaml's project, with the values of `env`, overridden by `given`.

    Raises Invalid with every problem, sorted by place.
    """
    values = load_values(real_path(file).parent, env, given)
    source = rendered_source(read_text(file, file.name), file.name, values)
    parsed = source.parsed(parse_yaml)
    problems = list(parsed.problems)
    project = None
    if len(parsed.documents) == 1 and isinstance(parsed.documents[0], Map):
        project = _read_project(file, parsed.documents[0], variables, problems)
    elif not problems:
        message = f"{file.name} must hold one map"
        hint = "begin with 'project:' and 'cluster:'; `connect init` writes an example"
        location = Location(file.name, 1, 1)
        problems.append(Diagnostic("project.not-a-map", message, location, hint=hint))
    if problems or project is None:
        raise Invalid(*by_place(redacted(problems, values) if values else problems))
    secrets = () if values is None else secret_texts(values)
    return replace(project, env=env, given=given, secrets=secrets)


def _read_project(
    file: Path, node: Map, variables: Mapping[str, str], problems: list[Diagnostic]
) -> Project | None:
    fields = Fields(node, _FIELDS, problems, code=_CODE, noun=PROJECT_FILE)
    name = fields.text("project", required=True)
    specs, specs_locations = _paths(fields, "specs")
    policies, policies_locations = _paths(fields, "policies")
    most_deletes = fields.get("max_deletes")
    deletes = DeleteLimits(
        fields.count("max_deletes"), where=most_deletes.location if most_deletes else None
    )
    validate = fields.inner("validate", ("unknown_keys",))
    unknown_keys = validate.word("unknown_keys", _SEVERITIES)
    cluster = fields.inner("cluster", _CLUSTER, required=True)
    if cluster.node is None:
        return None
    target_node = _resolved(cluster.get("target"), variables, problems)
    target = read_target(target_node, file.resolve().parent, problems)
    warnings: list[Diagnostic] = []
    kafka, authentication = ConfigValues(), False
    kafka_node = cluster.get("kafka")
    if not _is_embedded(kafka_node):
        kafka_node = _resolved(kafka_node, variables, problems)
    if _is_embedded(kafka_node):
        authentication = _embedded_authentication(cluster, target)
    else:
        kafka = _kafka(kafka_node, problems, warnings)
    group = cluster.text("group.id", required=True)
    topics = _topics(cluster, group or "")
    worker = _worker(cluster)
    if not name or not group:
        return None
    return Project(
        name=name,
        file=file.resolve(),
        group_id=group,
        topics=topics,
        kafka=kafka.values or None,
        target=target,
        worker=worker.values,
        specs=specs or DEFAULT_SPECS,
        specs_locations=specs_locations,
        policies=policies,
        policies_locations=policies_locations,
        kafka_locations=kafka.places,
        worker_locations=worker.places,
        cluster_locations={key.text: key.location for key, _ in cluster.node.entries},
        warnings=tuple(warnings),
        embedded_authentication=authentication,
        deletes=deletes,
        unknown_keys=unknown_keys or "warning",
    )


def _paths(fields: Fields, field: str) -> tuple[tuple[str, ...], dict[str, Location]]:
    """Returns the files, folders and globs of a list, and the location of each."""
    node, entries = fields.get(field), fields.texts(field)
    if isinstance(node, Sequence) and not node.items:
        hint = f"name a folder, or leave {field!r} out"
        fields.report(f"empty-{field}", node.location, f"{field!r} is empty", hint)
    return tuple(entry.text for entry in entries), {e.text: e.location for e in entries}


# --- ${env:NAME}: only where connect.yaml says how to reach a cluster. In a connector's config
# `${...}` is a reference that Connect resolves ---


def _resolved(
    node: Node | None, variables: Mapping[str, str], problems: list[Diagnostic]
) -> Node | None:
    """Returns the node with `${env:NAME}` resolved from the environment of the process; None if a
    variable is not set, or if a reference is one that only a worker could resolve."""
    valid = len(problems)
    resolved = None if node is None else resolve_variables(node, variables, problems)
    return resolved if len(problems) == valid else None


def resolve_variables(node: Node, variables: Mapping[str, str], problems: list[Diagnostic]) -> Node:
    """Returns the node with its values' variables filled in. Such a value is text: never null or a
    number."""
    if isinstance(node, Map):
        entries = (
            (key, resolve_variables(value, variables, problems)) for key, value in node.entries
        )
        return Map(tuple(entries), node.location)
    if isinstance(node, Sequence):
        items = (resolve_variables(item, variables, problems) for item in node.items)
        return Sequence(tuple(items), node.location)
    return _resolved_scalar(node, variables, problems)


def _resolved_scalar(
    scalar: Scalar, variables: Mapping[str, str], problems: list[Diagnostic]
) -> Scalar:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in variables:
            return variables[name]
        message = f"the environment variable {name!r} is not set"
        hint = f"set it where connect runs, such as: export {name}=..."
        problems.append(Diagnostic("project.missing-variable", message, scalar.location, hint=hint))
        return match[0]

    if foreign := _WORKER_REFERENCE.search(scalar.text):
        message = f"{foreign[0]} has no effect here: no worker resolves connect.yaml"
        hint = "only ${env:NAME} works, a variable of the environment in which connect runs"
        problems.append(
            Diagnostic("project.unknown-reference", message, scalar.location, hint=hint)
        )
    text = _VARIABLE.sub(value, scalar.text)
    return scalar if text == scalar.text else Scalar(text, scalar.location)


# --- the fields of `cluster` ---


def _is_embedded(node: Node | None) -> bool:
    if isinstance(node, Map):
        return node.get("embedded") is not None
    return isinstance(node, Scalar) and node.text == "embedded"


def _embedded_authentication(cluster: Fields, target: RestTarget | None) -> bool:
    """Returns True if the embedded broker asks for a login."""
    if target is not None:
        message = "the embedded broker is only for our own runtime"
        hint = "name the bootstrap.servers of that cluster, or omit 'kafka' to use REST alone"
        location = node.location if (node := cluster.get("kafka")) else cluster.location("kafka")
        cluster.report("embedded-rest", location, message, hint)
    if isinstance(cluster.get("kafka"), Scalar):
        return False
    embedded = cluster.inner("kafka", ("embedded",)).inner("embedded", ("authentication",))
    return embedded.word("authentication", ("none", "sasl"), code="bad-kafka") == "sasl"


def _kafka(
    node: Node | None, problems: list[Diagnostic], warnings: list[Diagnostic]
) -> ConfigValues:
    """Returns client properties; none for REST without Kafka."""
    if node is not None and not isinstance(node, Map):
        message = "'kafka' must be 'embedded', or a map of client properties"
        hint = 'write kafka: {bootstrap.servers: "localhost:9092"}'
        problems.append(Diagnostic("project.bad-kafka", message, node.location, hint=hint))
    if not isinstance(node, Map):
        return ConfigValues()
    config = read_config(node, problems)
    check_client_properties(config.values, config.places, problems, warnings)
    is_invalid = "bootstrap.servers" in config.places.keys() - config.values.keys()
    if not config.values.get("bootstrap.servers", "").strip() and not is_invalid:
        message, hint = "'kafka' has no bootstrap.servers", "add bootstrap.servers: host:port"
        problems.append(Diagnostic("project.bad-kafka", message, node.location, hint=hint))
    return config


def _topics(cluster: Fields, group: str) -> ClusterTopics:
    fields = cluster.inner("topics", _TOPICS)
    names = {kind: name for kind in _TOPICS if (name := fields.text(kind)) is not None}
    locations = dict.fromkeys(_TOPICS, cluster.location("group.id"))
    locations |= {kind: node.location for kind in names if (node := fields.get(kind))}
    topics = ClusterTopics.of(group, names)
    kinds: dict[str, str] = {}
    for kind in _TOPICS:
        name = getattr(topics, kind)
        first = kinds.setdefault(name, kind)
        if (group or kind in names) and not is_topic_name(name):
            message = f"the name of the {kind} topic, {name!r}, is not one that Kafka allows"
            hint = "letters, digits, '.', '_' and '-', at most 249"
            cluster.report("bad-topic", locations[kind], message, hint)
        elif first != kind:
            message = f"the {first} topic and the {kind} topic have the same name"
            hint = f"give the {kind} topic a name of its own under 'topics'"
            cluster.report("same-topic", locations[kind], message, hint)
    return topics


def _worker(cluster: Fields) -> ConfigValues:
    config = read_config(cluster.inner("worker", None).node, cluster.problems)
    for key in _SET_ELSEWHERE.keys() & config.places.keys():
        message = f"{key!r} cannot be set under 'worker'"
        hint = f"it is set as {_SET_ELSEWHERE[key]}"
        cluster.report("worker-key", config.places[key], message, hint)
    return config


# --- consequences.yaml ---


def read_consequences(folder: Path, problems: list[Diagnostic]) -> tuple[ConsequenceRule, ...]:
    """Returns the project's rules in order; none if the file does not exist."""
    file = folder / CONSEQUENCES_FILE
    if not file.exists() and not file.is_symlink():
        return ()
    try:
        parsed = parse_yaml(read_text(file, file.name), file.name)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return ()
    problems.extend(parsed.problems)
    rules: list[ConsequenceRule | None] = []
    for document in parsed.documents:
        if isinstance(document, Sequence):
            rules += [_consequence_rule(item, problems) for item in document.items]
        else:
            message = f"{CONSEQUENCES_FILE} must hold a list"
            hint = "write - {match: {key: ...}, consequence: ..., says: ...}"
            location = document.location
            problems.append(Diagnostic("consequences.not-a-list", message, location, hint=hint))
    return tuple(rule for rule in rules if rule is not None)


def _consequence_rule(node: Node, problems: list[Diagnostic]) -> ConsequenceRule | None:
    valid = len(problems)
    names = ("match", "consequence", "says")
    rule = Fields(node, names, problems, code="consequences", noun="a rule")
    consequence = rule.word("consequence", _CONSEQUENCES, required=True)
    says = rule.text("says", required=True)
    match = rule.inner("match", ("key", "class", "kind"), required=True)
    key = match.text("key", required=True)
    connector_class = match.text("class") or "*"
    kind = match.word("kind", _KINDS)
    if not (key and says and consequence) or len(problems) > valid:
        return None
    return ConsequenceRule(key, consequence, says, connector_class, kind)
