"""A worker's providers resolve configs, and what they say of failures holds no value."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import (
    ConfigData,
    ConfigDef,
    ConfigError,
    ConfigType,
)
from connect_runtime.config_providers.references import references, undeclared
from connect_runtime.config_providers.registry import ConfigProviders, Resolved
from connect_runtime.connectors.file_source import FileStreamSourceConnector
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.transforms.chain import Filter, RecordIsTombstone
from support import config_providers
from support.config_providers import NAME, VaultProvider

APACHE = "org.apache.kafka.common.config.provider"
ENV = {"config.providers": "env", "config.providers.env.class": f"{APACHE}.EnvVarConfigProvider"}
VAULT = {
    "config.providers": "env, vault",
    "config.providers.env.class": "EnvVar",
    "config.providers.vault.class": NAME,
    "config.providers.vault.param.token": "${env:CONNECT_TEST_TOKEN}",
}


@pytest.fixture(autouse=True)
def _vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    config_providers.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("CONNECT_TEST_TOKEN", "t0ken")
    config_providers.reset()
    yield
    config_providers.reset()


@pytest.mark.parametrize("name", ["File", "FileConfigProvider", f"{APACHE}.FileConfigProvider"])
def test_apaches_names(name: str, tmp_path: Path) -> None:
    file = tmp_path / "db.properties"
    file.write_text("user=me\npassword=s3cret")
    providers = ConfigProviders(
        {
            "config.providers": "f",
            "config.providers.f.class": name,
            "config.providers.f.param.allowed.paths": str(tmp_path),
        }
    )
    found = providers.resolve(
        {"url": f"${{f:{file}:user}}:${{f:{file}:password}}@${{topic}}", "a": "${other:x}"}
    )
    assert found.config == {"url": "me:s3cret@${topic}", "a": "${other:x}"}
    assert set(found.provided.values()) == {"me", "s3cret"}
    assert found.ttl_ms is None
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    "name",
    [NAME, "support.config_providers:VaultProvider", "support.config_providers.VaultProvider"],
)
def test_a_third_partys_provider_with_a_secret_from_another(name: str) -> None:
    VaultProvider.secrets |= {("db", "user"): "me", ("db", "password"): "s3cret"}
    VaultProvider.ttl_ms = 1500
    providers = ConfigProviders({**VAULT, "config.providers.vault.class": name})
    found = providers.resolve({"a": "${vault:db:user}", "b": "${vault:db:password}", "c": "1"})
    assert found.config == {"a": "me", "b": "s3cret", "c": "1"}
    assert found.ttl_ms == 1500
    assert VaultProvider.asked == [("db", frozenset({"user", "password"}))]
    providers.close()
    assert VaultProvider.closed == 1


@pytest.mark.parametrize(
    ("worker", "where", "what"),
    [
        ({"config.providers": "a"}, "config.providers.a.class", "Missing required configuration"),
        (
            {"config.providers": "a", "config.providers.a.class": "os.path"},
            "config.providers.a.class",
            "Class os.path could not be found. Known are: .*FileConfigProvider.*test-vault",
        ),
        (
            {"config.providers": "a", "config.providers.a.class": "not-a-provider"},
            "config.providers.a.class",
            "is not a ConfigProvider",
        ),
        (
            {
                "config.providers": "a",
                "config.providers.a.class": NAME,
                "config.providers.a.param.token": "refused",
            },
            "config.providers.a.class",
            "the token '",
        ),
        (
            {**VAULT, "config.providers.vault.param.token": "${env:CONNECT_TEST_NONE}"},
            "config.providers.vault.class",
            "the config provider env has no CONNECT_TEST_NONE",
        ),
    ],
)
def test_unusable_providers_are_reported(worker: dict[str, str], where: str, what: str) -> None:
    providers = ConfigProviders(worker)
    (problem,) = providers.problems()
    assert problem.where == where
    assert re.search(what, problem.what)
    alias = where.split(".")[2]
    with pytest.raises(ConfigError, match=f"the config provider {alias} cannot be used here"):
        providers.resolve({"password": f"${{{alias}:p:k}}"})
    # what refers to none needs none
    assert providers.resolve({"password": "s3cret"}).config == {"password": "s3cret"}


def test_a_reference_without_a_value_is_an_error_that_names_it() -> None:
    providers = ConfigProviders(ENV)
    config = {"password": "${env:CONNECT_TEST_NONE}", "user": "${env:CONNECT_TEST_TOKEN}"}
    with pytest.raises(ConfigError) as raised:
        providers.resolve(config)
    assert str(raised.value) == (
        "The reference ${env:CONNECT_TEST_NONE} in password cannot be resolved: the config "
        "provider env has no CONNECT_TEST_NONE."
    )
    found = providers.look_up(config)
    assert found.config == {"password": "${env:CONNECT_TEST_NONE}", "user": "t0ken"}
    assert [each.key for each in found.problems] == ["password"]


def test_exceptions_and_invalid_answers_of_providers_are_errors() -> None:
    providers = ConfigProviders(VAULT)

    def throws(path: str, keys: frozenset[str]) -> ConfigData:
        raise ValueError("login with t0ken failed")

    for answer, text in (
        (throws, r"ValueError: login with \[hidden\] failed"),
        (lambda path, keys: {"k": "v"}, "answered with dict"),
        (lambda path, keys: ConfigData({"k": 1}), "a value that is not text"),
        (lambda path, keys: ConfigData({"k": "v"}, "1"), "not an integer"),
        (lambda path, keys: ConfigData({"k": "v"}, True), "not an integer"),
        (lambda path, keys: ConfigData(None), "TypeError|AttributeError"),
        (lambda path, keys: sys.exit("no vault"), "SystemExit: no vault"),
    ):
        VaultProvider.answer = staticmethod(answer)
        with pytest.raises(ConfigError, match=text) as raised:
            providers.resolve({"a": "${vault:p:k}"})
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None


def test_providers_that_are_closed_resolve_nothing() -> None:
    providers = ConfigProviders(ENV)
    providers.close()
    with pytest.raises(ConfigError, match="config providers are closed"):
        providers.resolve({"a": "${env:HOME}"})


def test_providers_are_made_when_a_reference_names_them() -> None:
    providers = ConfigProviders(VAULT)
    providers.resolve({"a": "1"})
    providers.close()
    assert VaultProvider.made == VaultProvider.closed == 0


def test_a_provider_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, go = threading.Event(), threading.Event()

    def configure(self: VaultProvider, params: object) -> None:
        hanging.set()
        go.wait(30)

    monkeypatch.setattr(VaultProvider, "configure", configure)
    providers = ConfigProviders(VAULT)
    thread = threading.Thread(target=lambda: providers.look_up({"a": "${vault:p:k}"}))
    thread.start()
    try:
        assert hanging.wait(30)
        found = providers.resolve({"a": "${env:CONNECT_TEST_TOKEN}"})
        assert found.config == {"a": "t0ken"}
        providers.close()
    finally:
        go.set()
        thread.join(30)
    # it was made after all others were closed
    assert VaultProvider.closed == 1


@pytest.mark.parametrize("used", ["vault", "late"])
def test_params_refer_to_providers_declared_before(used: str) -> None:
    worker = {
        **VAULT,
        "config.providers": "vault, late",
        "config.providers.late.class": "EnvVar",
        "config.providers.vault.param.token": f"${{{used}:k}}",
    }
    (problem,) = ConfigProviders(worker).problems()
    assert problem.what == f"its params refer to {used}, not declared before it"


def test_a_jvm_gets_the_values_of_providers_that_it_does_not_have() -> None:
    VaultProvider.secrets["db", "user"] = "someone"
    worker = {**VAULT, "user": "${env:CONNECT_TEST_TOKEN} ${vault:db:user}", "none": "${x:y}"}
    providers = ConfigProviders(worker)
    resolved = providers.for_jvm({**worker, "java.config.providers": "env"})
    assert resolved.config["user"] == "${env:CONNECT_TEST_TOKEN} someone"
    assert resolved.config["config.providers.vault.param.token"] == "${env:CONNECT_TEST_TOKEN}"
    assert dict(resolved.provided) == {"${vault:db:user}": "someone"}
    with pytest.raises(ConfigError, match="has no password at db"):
        providers.for_jvm({"key": "${vault:db:password}"})


def test_a_redactor_knows_the_values_the_secrets_and_the_workers() -> None:
    worker = {**VAULT, "sasl.password": "${env:CONNECT_TEST_TOKEN}", "ssl.key.password": "kkkk"}
    VaultProvider.secrets["db", "user"] = "someone"
    providers = ConfigProviders(worker)
    found = providers.resolve({"user": "${vault:db:user}", "pass.password": "pppp", "x": "xxxx"})
    text = providers.redactor(found).redact("t0ken kkkk someone pppp xxxx")
    assert text == "[hidden] [hidden] [hidden] [hidden] xxxx"


class Locked:
    def config(self) -> ConfigDef:
        return ConfigDef().define("pin", ConfigType.PASSWORD)


class LockedConnector(Locked, FileStreamSourceConnector): ...


class LockedTransformation(Locked, Filter): ...


class LockedPredicate(Locked, RecordIsTombstone): ...


class LockedConverter(Locked, StringConverter): ...


def test_a_redactor_knows_what_the_plugins_definitions_make_passwords(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "locked", sys.modules[__name__])
    allow_modules({PLUGIN_MODULES: "locked"})
    config = {
        "connector.class": "locked:LockedConnector",
        "pin": "170845",
        "transforms": "broken, t",
        "transforms.broken.type": "no.such.Class",
        "transforms.t.type": "locked:LockedTransformation",
        "transforms.t.pin": "270845",
        "predicates": "p",
        "predicates.p.type": "locked:LockedPredicate",
        "predicates.p.pin": "370845",
        "value.converter": "locked:LockedConverter",
        "value.converter.pin": "470845",
        "code": "4711",
    }
    providers = ConfigProviders({})
    redactor = providers.redactor(providers.resolve(config))
    assert redactor.redact("170845 270845 370845 470845 4711") == "[hidden] " * 4 + "4711"


def test_references_to_providers_that_are_not_declared() -> None:
    config = {"a": "${env:X} ${vault:p:k} ${vault:k}", "b": "${topic}", "c": "${file:x:y}"}
    assert list(undeclared(config, ENV)) == [("a", "vault"), ("c", "file")]


@pytest.mark.parametrize(
    ("task", "published"),
    [
        ({"password": "s3cret"}, {"password": "${v:password}"}),
        # as Apache: the raw value, whatever the connector made of it
        ({"password": "other"}, {"password": "${v:password}"}),
        ({"dsn": "me:s3cret@db"}, {"dsn": "me:${v:password}@db"}),
        ({"n": "17", "flag": "4"}, {"n": "17", "flag": "4"}),
        ({"same": "s3cret"}, {"same": "s3cret"}),
        ({"number": "0"}, {"number": "0"}),
    ],
)
def test_task_configs_are_published_without_values(
    task: dict[str, str], published: dict[str, str]
) -> None:
    raw = {"password": "${v:password}", "pin": "${v:pin}", "same": "s3cret"}
    resolved = {"password": "s3cret", "pin": "4", "same": "s3cret"}
    given = {"${v:password}": "s3cret", "${v:pin}": "4"}
    assert Resolved(raw, resolved, given).task_config(task) == published


@given(
    st.dictionaries(st.sampled_from("pq"), st.text("abcd$:{}", max_size=9), min_size=1),
    st.dictionaries(st.sampled_from("xy"), st.text("abcd$:{}pq", max_size=12)),
    st.lists(st.sampled_from(["p", "q"]), max_size=3),
)
def test_published_task_configs_resolve_to_what_the_task_was_given(
    values: dict[str, str], raw_texts: dict[str, str], used: list[str]
) -> None:
    VaultProvider.answer = None
    VaultProvider.secrets.clear()
    VaultProvider.secrets.update({("", key): value for key, value in values.items()})
    raw = {key: text + "".join(f"${{vault:{p}}}" for p in used) for key, text in raw_texts.items()}
    providers = ConfigProviders(VAULT)
    found = providers.look_up(raw)
    derived = {"derived": "-".join(values.values()), **found.config}
    published = found.task_config(derived)
    again = providers.look_up(published)
    assert again.config["derived"] == derived["derived"]
    for key in raw:
        if not found.problems:
            assert again.config[key] == found.config[key]


def test_a_published_value_never_gets_references_that_were_not_there() -> None:
    # what is around the value would become a part of the reference
    raw, given = {"a": "${v:k}"}, {"${v:k}": "long-value"}
    found = Resolved(raw, {"a": "long-value"}, given).task_config({"b": "${x:long-value}"})
    assert found == {"b": "${x:long-value}"}
    assert references(found["b"])[0].provider == "x"


def test_the_fingerprint_tells_values_apart_only_with_its_salt() -> None:
    one = Resolved({"a": "${v:k}"}, {"a": "1"}, {"${v:k}": "1"})
    two = Resolved({"a": "${v:k}"}, {"a": "2"}, {"${v:k}": "2"})
    assert one.fingerprint(b"x") == one.fingerprint(b"x") != two.fingerprint(b"x")
    assert one.fingerprint(b"x") != one.fingerprint(b"y")


@pytest.mark.parametrize(
    ("action", "ttl_ms", "seconds"),
    [
        (None, 5000, 5.0),
        ("restart", 5000, 5.0),
        ("NONE", 5000, None),
        (None, None, None),
        (None, 0, 1.0),
    ],
)
def test_when_a_connector_is_restarted_for_new_values(
    action: str | None, ttl_ms: int | None, seconds: float | None
) -> None:
    config = {} if action is None else {"config.action.reload": action}
    assert Resolved(config, config, {}, ttl_ms).reload_in_s == seconds
