"""Whatever a secret looks like and wherever a config holds it: nothing that leaves shows it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_reconciler.actions.plan import Plan
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, without_secrets
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest_only import RestOnlyBackend
from connect_reconciler.cli.apply_report import render_report, report_json
from connect_reconciler.drift.compare import compare
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.model.live import Live
from connect_reconciler.render.drift_report import drift_markdown, drift_text, finding_json
from connect_reconciler.render.plan_file import dump_plan, render_plan_json
from connect_reconciler.render.plan_html import render_html
from connect_reconciler.render.plan_markdown import render_markdown
from connect_reconciler.render.plan_text import render_plan
from connect_reconciler.validation.configs import checked
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import Desired, DesiredConnector, Project, RestTarget, TargetState
from connect_specs.diagnostics import Location
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from support.applying import PROJECT, Applying
from support.examples import examples
from support.fake_cluster import TOPICS, FakeCluster, refused

# In the middle of each secret, and nowhere else
MARK = "zq9"
VAULT, AVRO = "com.example.VaultSinkConnector", "com.example.PinConverter"
PLUGINS = PluginSet(
    (
        PluginDefinition(
            VAULT, "sink", "1", {"vendor.pin": KeyDefinition("vendor.pin", "PASSWORD")}
        ),
        PluginDefinition(AVRO, "converter", "1", {"pin": KeyDefinition("pin", "PASSWORD")}),
    )
)
BASE = {"connector.class": "VaultSink", "topics": "t", "value.converter": "PinConverter"}
SENSITIVE = ("internal.number", "vendor.x.*")
TARGET = RestTarget("http://connect.test")

any_text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
plain = st.text("abcXYZ0189-_.~", max_size=6)


def _around(text: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(text, text).map(MARK.join)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, str]:
    """A config with any number of secrets, each where one may be."""
    odd, tame = _around(any_text), _around(plain)
    places: dict[str, st.SearchStrategy[str]] = {
        "vendor.pin": odd,
        "value.converter.pin": odd,
        "db.password": odd,
        "internal.number": odd,
        "vendor.x.y": odd,
        "connection.url": tame.map(lambda secret: f"jdbc:db://me:{secret}@host/x"),
        "anything": tame.map(lambda secret: f"Endpoint=sb://x;SharedAccessKey={secret};a=b"),
        "consumer.override.sasl.jaas.config": tame.map(
            lambda secret: f'x.LoginModule required username="u" password="{secret}";'
        ),
        "http.headers": tame.map(lambda secret: f"Accept: */*, Authorization: Bearer {secret}"),
        "headers": tame.map(lambda secret: f"X-Vendor: {secret}"),
        "azblob.sas.key": odd,
        "connection.pwd": odd,
        "oracle": tame.map(lambda secret: f"jdbc:oracle:thin:scott/{secret}@db:1521:orcl"),
        "alerts": tame.map(lambda secret: f"https://hooks.slack.com/services/T0/{secret}-token"),
        "signing.key": tame.map(
            lambda secret: f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----"
        ),
    }
    keys = draw(st.sets(st.sampled_from(sorted(places))))
    return {**BASE, **{key: draw(places[key]) for key in sorted(keys)}}


@st.composite
def desireds(draw: st.DrawFn) -> Desired:
    names = draw(st.sets(st.sampled_from("abc")))
    return Desired(
        "orders",
        {
            name: DesiredConnector(
                name,
                {**draw(configs()), "name": name},
                Location(f"{name}.yaml", 1, 1),
                sensitive=SENSITIVE,
            )
            for name in sorted(names)
        },
    )


def quoted(config: Mapping[str, str]) -> str:
    """What a careless connector throws: its config, in more than one way."""
    password = config.get("connection.url", "").rpartition("@")[0].rpartition(":")[2]
    return f"{'; '.join(config.values())}; {json.dumps(dict(config))}; login with {password}"


class Careless(FakeCluster):
    """Refuses every other change, and says all that it was given."""

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        if name == "b":
            raise refused(quoted(config), 400)
        super().create(name, config, state)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        if name == "a":
            raise refused(quoted(config), 400)
        super().update_config(name, config)


@examples(30)
@given(desireds(), desireds(), st.sampled_from((b"key", None)))
def test_no_secret_in_plans_applies_ledger_drift_and_logs(
    first: Desired, second: Desired, key: bytes | None
) -> None:
    world = Applying(key=key, plugins=PLUGINS)
    world.kafka.create_topics()
    with _logged() as logged:
        for desired in (first, second, second):
            live = world.observe(desired)
            drift = compare(desired, LiveWithHistory(live))
            shown = [drift_text(drift), drift_markdown(drift), *map(finding_json, drift.findings)]
            plan = world.plan(desired)
            shown += renderings(plan)
            report = world.apply(desired, plan, cluster=Careless(world.kafka))
            shown += [render_report(report), json.dumps(report_json(report)), repr(report)]
            assert MARK not in "".join(shown)
    for record in world.kafka.records(TOPICS.ledger):
        assert MARK.encode() not in (record.key or b"") + (record.value or b"")
    assert MARK not in repr(world.events) + logged.getvalue()


class Silent:
    """A cluster's plugins, of which those of these names do not answer."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        return None if name in self._names else PLUGINS.find(name, types)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return PLUGINS.class_names(types)

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        return f"GET /connector-plugins/{name}/config answered 500" if name in self._names else ""


@st.composite
def untold(draw: st.DrawFn) -> tuple[Silent, list[dict[str, dict[str, str]]]]:
    """Plugins that do not answer, and twice two configs with values that may be secret by their
    types."""
    odd = _around(any_text)
    names = draw(
        st.sampled_from((("VaultSink",), ("PinConverter",), ("VaultSink", "PinConverter")))
    )
    keys = {"vendor.pin": odd, "value.converter.pin": odd}
    if "VaultSink" in names:
        keys |= {"region": odd, "a.b": odd, "consumer.override.vendor.x": odd}
    if "PinConverter" in names:
        keys |= {"value.converter.other": odd}
    used = st.sets(st.sampled_from(sorted(keys)), min_size=1)
    configs = [
        {name: {**BASE, **{key: draw(keys[key]) for key in sorted(draw(used))}} for name in "ab"}
        for _ in range(2)
    ]
    return Silent(*names), configs


@examples(30)
@given(untold(), st.sampled_from((b"key", None)), st.booleans())
def test_no_value_whose_type_could_not_be_asked_for_leaves(
    world_of: tuple[Silent, list[dict[str, dict[str, str]]]],
    key: bytes | None,
    renamed: bool,
) -> None:
    plugins, (first, second) = world_of
    world = Applying(key=key, plugins=plugins)
    world.kafka.create_topics()
    with _logged() as logged:
        for at, found in enumerate((first, second, second)):
            names = {"a": "a", "b": "c" if renamed and at else "b"}
            specs = [
                DesiredConnector(
                    new,
                    {**found[name], "name": new},
                    Location(f"{new}.yaml", 1, 1),
                    renamed_from=None if new == name else name,
                )
                for name, new in names.items()
            ]
            desired = Desired("orders", {each.name: each for each in specs})
            live = world.observe(desired)
            drift = compare(desired, LiveWithHistory(live))
            shown = [drift_text(drift), drift_markdown(drift), *map(finding_json, drift.findings)]
            plan = world.plan(desired)
            shown += renderings(plan)
            report = world.apply(desired, plan, cluster=Careless(world.kafka))
            shown += [render_report(report), json.dumps(report_json(report)), repr(report)]
            assert MARK not in "".join(shown)
    for record in world.kafka.records(TOPICS.ledger):
        assert MARK.encode() not in (record.key or b"") + (record.value or b"")
    assert MARK not in repr(world.events) + logged.getvalue()


@pytest.mark.parametrize(
    ("silent", "key"), [("VaultSink", "vendor.pin"), (AVRO, "value.converter.pin")]
)
def test_what_could_not_be_typed_stays_hidden_while_nothing_knows_its_plugin(
    silent: str, key: str
) -> None:
    """The trap: a cluster that answers again, and has no such plugin now."""
    world = Applying(key=b"key", plugins=Silent(silent))
    world.kafka.create_topics()
    config = {**BASE, "value.converter": AVRO, key: f"a{MARK}", "name": "a"}

    def desired(pin: str) -> Desired:
        spec = DesiredConnector("a", {**config, key: pin}, Location("a.yaml", 1, 1))
        return Desired("orders", {"a": spec})

    world.apply(desired(f"a{MARK}"))
    rest = tuple(each for each in PLUGINS.plugins if not each.has_name(silent))
    world.plugins = PluginSet(rest)
    live, plan = world.observe(desired(f"b{MARK}")), world.plan(desired(f"b{MARK}"))
    assert plan.actions
    drift = compare(desired(f"b{MARK}"), LiveWithHistory(live))
    shown = [drift_text(drift), *map(finding_json, drift.findings), *renderings(plan)]
    failed = InstanceStatus(State.FAILED, "w", quoted(config))
    status = ConnectorStatus("a", failed, {0: failed}, "sink")
    specs = SpecSecrets().with_ledger(live.ledger.connectors)
    shown.append(repr(without_secrets(status, (config,), world.plugins, specs)))
    assert MARK not in "".join(shown)
    world.plugins = PLUGINS
    assert key in world.observe(desired("b")).password_keys["a"]
    assert not live.untyped_keys


def renderings(plan: Plan) -> Iterator[str]:
    yield render_plan(plan)
    yield render_markdown(plan)
    yield render_html(plan)
    yield json.dumps(render_plan_json(plan))
    yield dump_plan(plan)


class _logged:
    """All that is logged meanwhile, at any level."""

    def __enter__(self) -> StringIO:
        self._into = StringIO()
        self._handler = logging.StreamHandler(self._into)
        root = logging.getLogger()
        self._level = root.level
        root.setLevel(logging.DEBUG)
        root.addHandler(self._handler)
        return self._into

    def __exit__(self, *error: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._level)


@examples(30)
@given(desireds())
def test_no_secret_in_what_validation_says(desired: Desired) -> None:
    def careless(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404, json={"error_code": 404, "message": "no"})
        config = orjson.loads(request.content)
        if config["name"] == "c":
            return httpx.Response(500, json={"error_code": 500, "message": quoted(config)})
        infos = [_info(name, config) for name in ("topics", "vendor.pin", "value.converter.pin")]
        return httpx.Response(200, json={"configs": infos})

    def client(*_: object) -> RestClient:
        return RestClient(TARGET, transport=httpx.MockTransport(careless))

    project = Project(
        "orders", Path("/nowhere/connect.yaml"), "g", TOPICS, {}, TARGET, PROJECT.worker, ()
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RestOnlyBackend, "rest", client)
        live = checked(Live(), desired, open_backend(project, {}))
    assert MARK not in repr((live.errors, live.warnings))


def _info(key: str, config: Mapping[str, str]) -> dict[str, object]:
    definition = {
        "name": key,
        "type": "LIST" if key == "topics" else "PASSWORD",
        "required": False,
        "default_value": None,
        "importance": "LOW",
        "dependents": [],
    }
    value = {
        "name": key,
        "value": "[hidden]",
        "errors": [quoted(config)],
        "recommended_values": [config.get(key, "")],
    }
    return {"definition": definition, "value": value}


@examples(30)
@given(configs())
def test_no_secret_in_a_trace_that_status_shows(config: dict[str, str]) -> None:
    config = {**config, "name": "a"}
    failed = InstanceStatus(State.FAILED, "w", quoted(config))
    status = ConnectorStatus("a", failed, {0: failed}, "sink")
    shown = without_secrets(status, (config,), PLUGINS, SpecSecrets(lambda name: SENSITIVE))
    assert MARK not in repr(shown)
