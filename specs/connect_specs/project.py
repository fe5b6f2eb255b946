"""Finds and reads connect.yaml: which cluster a project is for, and where its specs are.

Every mistake is reported at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from connect_specs.client_properties import check_client_properties
from connect_specs.config_values import ConfigValues, read_config
from connect_specs.desired import DeleteLimits, Project, RestTarget
from connect_specs.diagnostics import Diagnostic, Invalid, Location, Severity, by_place
from connect_specs.fields import (
    as_count,
    as_map,
    as_text,
    as_texts,
    check_fields,
    place_of,
    required,
)
from connect_specs.names import ClusterTopics, is_topic_name
from connect_specs.nodes import Map, Node, Scalar
from connect_specs.rest_target import read_target
from connect_specs.sources import rendered_source
from connect_specs.spec_folders import real_path
from connect_specs.text_files import read_text
from connect_specs.value_secrets import redacted, secret_texts
from connect_specs.values import load_values
from connect_specs.variables import resolve_variables
from connect_specs.yaml_documents import parse_yaml

PROJECT_FILE = "connect.yaml"
DEFAULT_SPECS = ("connectors/",)

_CODE = "project"
_TOPICS = ("config", "offsets", "status", "assignments", "ledger")
_SET_ELSEWHERE = {
    "group.id": "cluster.group.id",
    "bootstrap.servers": "cluster.kafka",
    "config.storage.topic": "cluster.topics.config",
    "offset.storage.topic": "cluster.topics.offsets",
    "status.storage.topic": "cluster.topics.status",
}


def find_project(start: Path) -> Path:
    """Returns the connect.yaml in `start` or the nearest folder above it. Raises Invalid."""
    folder = start.resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / PROJECT_FILE
        # A broken link is reported when it is read
        if file.is_file() or file.is_symlink():
            return file
    what = f"there is no {PROJECT_FILE} in this folder or above it"
    hint = "run `connect init` to create one, or change to the project's folder"
    raise Invalid(Diagnostic("project.not-found", what, Location(str(start)), hint=hint))


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
        what = f"{file.name} must hold one map"
        hint = "begin with 'project:' and 'cluster:'; `connect init` writes an example"
        problems.append(Diagnostic("project.not-a-map", what, Location(file.name, 1, 1), hint=hint))
    if problems or project is None:
        raise Invalid(*by_place(redacted(problems, values) if values else problems))
    secrets = () if values is None else secret_texts(values)
    return replace(project, env=env, given=given, secrets=secrets)


def _read_project(
    file: Path, node: Map, variables: Mapping[str, str], problems: list[Diagnostic]
) -> Project | None:
    known = ("project", "cluster", "specs", "policies", "max_deletes", "validate")
    check_fields(node, known, _CODE, PROJECT_FILE, problems)
    name_node = required(node, "project", _CODE, PROJECT_FILE, problems)
    name = name_node and as_text(name_node, "project", _CODE, problems)
    specs, specs_places = _paths("specs", node.get("specs"), problems)
    policies, policies_places = _paths("policies", node.get("policies"), problems)
    deletes = _delete_limits(node.get("max_deletes"), problems)
    unknown_keys = _unknown_keys(node.get("validate"), problems)
    cluster_node = required(node, "cluster", _CODE, PROJECT_FILE, problems)
    cluster = cluster_node and as_map(cluster_node, "cluster", _CODE, problems)
    if not cluster:
        return None
    fields = ("group.id", "kafka", "target", "topics", "worker")
    check_fields(cluster, fields, _CODE, "cluster", problems)
    folder = file.resolve().parent
    target = read_target(_resolved(cluster, "target", variables, problems), folder, problems)
    warnings: list[Diagnostic] = []
    kafka_node = cluster.get("kafka")
    authentication = _asks_for_login(kafka_node, problems)
    kafka = None
    if authentication is None:
        kafka_node = _resolved(cluster, "kafka", variables, problems)
        kafka = _kafka(kafka_node, target, problems, warnings)
    elif kafka_node is not None and target is not None:
        problems.append(_embedded_rest(kafka_node))
    group_node = required(cluster, "group.id", _CODE, "cluster", problems)
    group = group_node and as_text(group_node, "group.id", _CODE, problems)
    topics = _topics(cluster, group or "", problems)
    worker = _worker(cluster, problems)
    if not name or not group:
        return None
    return Project(
        name=name,
        file=file.resolve(),
        group_id=group,
        topics=topics,
        kafka=None if kafka is None else kafka.values,
        target=target,
        worker=worker.values,
        specs=specs or DEFAULT_SPECS,
        specs_locations=specs_places,
        policies=policies,
        policies_locations=policies_places,
        kafka_locations={} if kafka is None else kafka.places,
        worker_locations=worker.places,
        cluster_locations={key.text: key.where for key, _ in cluster.entries},
        warnings=tuple(warnings),
        embedded_authentication=authentication or False,
        deletes=deletes,
        unknown_keys=unknown_keys,
    )


def _paths(
    field: str, node: Node | None, problems: list[Diagnostic]
) -> tuple[tuple[str, ...], dict[str, Location]]:
    """Returns what a list of files, folders and globs names, and where each entry is."""
    if node is None:
        return (), {}
    before = len(problems)
    entries = as_texts(node, field, _CODE, problems)
    if not entries and len(problems) == before:
        what = f"{field!r} is empty"
        hint = f"name a folder, or leave {field!r} out"
        problems.append(Diagnostic(f"project.empty-{field}", what, node.where, hint=hint))
    return tuple(entry.text for entry in entries), {e.text: e.where for e in entries}


def _delete_limits(node: Node | None, problems: list[Diagnostic]) -> DeleteLimits:
    most = None if node is None else as_count(node, "max_deletes", _CODE, problems)
    return DeleteLimits(most, where=None if node is None else node.where)


def _unknown_keys(node: Node | None, problems: list[Diagnostic]) -> Severity:
    """Returns how severe a config key is that no plugin defines: `validate: {unknown_keys: …}`."""
    fields = None if node is None else as_map(node, "validate", _CODE, problems)
    if fields is None:
        return "warning"
    check_fields(fields, ("unknown_keys",), _CODE, "validate", problems)
    value = fields.get("unknown_keys")
    text = value and as_text(value, "unknown_keys", _CODE, problems)
    if text == "error":
        return "error"
    if value is not None and text and text != "warning":
        what = "'unknown_keys' must be 'error' or 'warning'"
        hint = "write unknown_keys: error, or leave it out for warnings"
        problems.append(Diagnostic("project.bad-value", what, value.where, hint=hint))
    return "warning"


def _resolved(
    cluster: Map, field: str, variables: Mapping[str, str], problems: list[Diagnostic]
) -> Node | None:
    """Returns a field of the cluster with `${env:NAME}` resolved; None if a variable is not set."""
    before = len(problems)
    node = cluster.get(field)
    found = None if node is None else resolve_variables(node, variables, problems)
    return found if len(problems) == before else None


def _asks_for_login(node: Node | None, problems: list[Diagnostic]) -> bool | None:
    """Whether the embedded broker asks for a login; None if `kafka` has no `embedded` map."""
    if not isinstance(node, Map) or node.get("embedded") is None:
        return None
    check_fields(node, ("embedded",), _CODE, "kafka", problems)
    inner = required(node, "embedded", _CODE, "kafka", problems)
    settings = inner and as_map(inner, "embedded", _CODE, problems)
    if not settings:
        return False
    check_fields(settings, ("authentication",), _CODE, "embedded", problems)
    given = settings.get("authentication")
    text = given and as_text(given, "authentication", _CODE, problems)
    if given is not None and text and text not in ("none", "sasl"):
        what = "'authentication' of the embedded broker must be 'sasl' or 'none'"
        hint = "write authentication: sasl, or leave it out"
        problems.append(Diagnostic("project.bad-kafka", what, given.where, hint=hint))
    return text == "sasl"


def _embedded_rest(node: Node) -> Diagnostic:
    what = "the embedded broker is only for our own runtime"
    hint = "name the bootstrap.servers of that cluster, or omit 'kafka' to use REST alone"
    return Diagnostic("project.embedded-rest", what, node.where, hint=hint)


def _kafka(
    node: Node | None,
    target: RestTarget | None,
    problems: list[Diagnostic],
    warnings: list[Diagnostic],
) -> ConfigValues | None:
    """Returns client properties; None for the embedded broker, or for REST without Kafka."""
    if node is None:
        return None
    if isinstance(node, Scalar) and node.text == "embedded":
        if target is not None:
            problems.append(_embedded_rest(node))
        return None
    if not isinstance(node, Map):
        what = "'kafka' must be 'embedded', or a map of client properties"
        hint = 'write kafka: {bootstrap.servers: "localhost:9092"}'
        problems.append(Diagnostic("project.bad-kafka", what, node.where, hint=hint))
        return None
    config = read_config(node, problems)
    check_client_properties(config, problems, warnings)
    if not config.values.get("bootstrap.servers", "").strip():
        if "bootstrap.servers" not in config.places or "bootstrap.servers" in config.values:
            what = "'kafka' has no bootstrap.servers"
            hint = "add bootstrap.servers: host:port"
            problems.append(Diagnostic("project.bad-kafka", what, node.where, hint=hint))
        return None
    return config


def _topics(cluster: Map, group: str, problems: list[Diagnostic]) -> ClusterTopics:
    node = cluster.get("topics")
    fields = None if node is None else as_map(node, "topics", _CODE, problems)
    given: dict[str, str] = {}
    places = dict.fromkeys(_TOPICS, place_of(cluster, "group.id"))
    if fields:
        check_fields(fields, _TOPICS, _CODE, "topics", problems)
        for key, value in fields.entries:
            text = as_text(value, key.text, _CODE, problems) if key.text in _TOPICS else None
            if text is not None:
                given[key.text], places[key.text] = text, value.where
    topics = ClusterTopics.of(group, given)
    seen: dict[str, str] = {}
    for kind in _TOPICS:
        name = getattr(topics, kind)
        first = seen.setdefault(name, kind)
        if (group or kind in given) and not is_topic_name(name):
            what = f"the name of the {kind} topic, {name!r}, is not one that Kafka allows"
            hint = "letters, digits, '.', '_' and '-', at most 249"
            problems.append(Diagnostic("project.bad-topic", what, places[kind], hint=hint))
        elif first != kind:
            what = f"the {first} topic and the {kind} topic have the same name"
            hint = f"give the {kind} topic a name of its own under 'topics'"
            problems.append(Diagnostic("project.same-topic", what, places[kind], hint=hint))
    return topics


def _worker(cluster: Map, problems: list[Diagnostic]) -> ConfigValues:
    node = cluster.get("worker")
    fields = None if node is None else as_map(node, "worker", _CODE, problems)
    if not fields:
        return ConfigValues({}, {})
    config = read_config(fields, problems)
    for key in _SET_ELSEWHERE.keys() & config.places.keys():
        what = f"{key!r} cannot be set under 'worker'"
        hint = f"it is set as {_SET_ELSEWHERE[key]}"
        problems.append(Diagnostic("project.worker-key", what, config.places[key], hint=hint))
    return config
