"""A plugin that does not answer what it is asked before anything runs is an error of the connectors
that name it, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connect_runtime.herder.verbs import Refusal, RequestError
from connect_runtime.plugins import definitions
from connect_runtime.plugins.definitions import password_keys
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.rest.plugin_resources import keys_json
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation import validate as validate_module
from connect_runtime.validation.infos import ConfigInfos
from connect_runtime.validation.validate import validate
from connect_runtime.waiting import SharedCalls
from support import broken_plugins as broken

SOURCE = {"name": "n", "connector.class": "FileStreamSource", "topic": "t"}
CONFIGS = [cls for cls in broken.CONNECTORS if cls.__name__.startswith("Config")]


@pytest.fixture(scope="module")
def worker() -> WorkerConfig:
    allow_modules({PLUGIN_MODULES: broken.MODULE})
    given = {"group.id": "g", "bootstrap.servers": "localhost:9092"}
    given |= {"key.converter": "Json", "value.converter": "Json"}
    topics = {f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")}
    return from_properties({**given, **topics})[0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Waits 0.2 s for a plugin."""
    broken.RELEASE.clear()
    monkeypatch.setattr(definitions, "_calls", SharedCalls(0.2))
    yield
    broken.RELEASE.set()


def errors(infos: ConfigInfos) -> dict[str, tuple[str, ...]]:
    values = [info.value for info in infos.configs if info.value is not None]
    return {value.name: value.errors for value in values if value.errors}


def name_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__name__}"


@pytest.mark.parametrize("cls", broken.CONNECTORS, ids=lambda cls: cls.__name__)
def test_the_validation_of_a_broken_connector_is_refused(worker: WorkerConfig, cls: type) -> None:
    broken.CreatedOnce.created = False
    with pytest.raises(RequestError) as refused:
        validate({**SOURCE, "connector.class": name_of(cls), "api.token": "hunter2"}, worker)
    assert broken.CONNECTORS[cls] in refused.value.message
    assert "hunter2" not in refused.value.message
    is_not_imported = cls is broken.NeedsArguments
    assert (refused.value.refusal is Refusal.PLUGIN_FAILED) is not is_not_imported
    answers_wrongly = "must return" in refused.value.message
    assert refused.value.status == (400 if answers_wrongly or is_not_imported else 500)


@pytest.mark.parametrize("cls", CONFIGS, ids=lambda cls: cls.__name__)
def test_the_keys_of_a_plugin_that_does_not_tell_them_are_refused(
    worker: WorkerConfig, cls: type
) -> None:
    with pytest.raises(RequestError) as refused:
        keys_json(name_of(cls))
    assert (refused.value.status, refused.value.refusal) == (500, Refusal.PLUGIN_FAILED)
    assert broken.CONNECTORS[cls] in refused.value.message


@pytest.mark.parametrize("cls", broken.CONNECTORS, ids=lambda cls: cls.__name__)
def test_passwords_of_a_broken_connector_are_not_known(worker: WorkerConfig, cls: type) -> None:
    assert password_keys({"connector.class": name_of(cls)}) == frozenset()


@pytest.mark.parametrize(
    ("key", "cls", "text"),
    [
        (
            "transforms.a.type",
            broken.TransformationRaises,
            "Error getting config definition from Transformation: {}.config() raised RuntimeError: "
            "no options today",
        ),
        (
            "transforms.a.type",
            broken.TransformationIsNone,
            "Error getting config definition from Transformation: {}.config() must return a "
            "ConfigDef that is not null.",
        ),
        ("transforms.a.type", broken.TransformationNeedsArguments, "cannot be instantiated: "),
        (
            "transforms.a.type",
            broken.TransformationHangs,
            "Error getting config definition from Transformation: {}.config() has not returned in",
        ),
        (
            "predicates.a.type",
            broken.PredicateRaises,
            "Error getting config definition from Predicate: {}.config() raised RuntimeError: ",
        ),
        (
            "key.converter",
            broken.ConverterRaises,
            "Failed to load ConfigDef from key converter: {}.config() raised RuntimeError: ",
        ),
        (
            "value.converter",
            broken.ConverterIsNone,
            "Failed to load ConfigDef from value converter: {}.config() must return a ConfigDef",
        ),
        (
            "header.converter",
            broken.HeaderConverterRaises,
            "Failed to load ConfigDef from header converter: {}.config() raised RuntimeError: ",
        ),
    ],
)
def test_another_broken_plugin_is_an_error_of_the_key_that_names_it(
    worker: WorkerConfig, impatient: None, key: str, cls: type, text: str
) -> None:
    config = {**SOURCE, key: name_of(cls), "tasks.max": "many"}
    if key.endswith(".type"):
        config[key.partition(".")[0]] = "a"
    found = errors(validate(config, worker))
    assert found.keys() == {key, "tasks.max"}
    assert text.format(f"{cls.__module__}.{cls.__name__}") in found[key][0]


def test_a_connector_that_hangs_is_waited_for_once(worker: WorkerConfig, impatient: None) -> None:
    """The trap: each config that names the class waits, and leaves a thread behind."""
    broken.ConfigHangs.calls = 0
    for _ in range(3):
        with pytest.raises(RequestError, match=r"ConfigHangs.config\(\) has not returned in"):
            validate({**SOURCE, "connector.class": name_of(broken.ConfigHangs)}, worker)
    assert broken.ConfigHangs.calls == 1


def test_a_call_that_could_not_start_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trap: where there was no thread left once, the plugin has not answered for ever."""
    shared = SharedCalls[int](0.2)

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="thread"):
            shared.result("key", lambda: 1)
    assert shared.result("key", lambda: 1) == 1


def test_a_validation_that_hangs_is_refused(
    worker: WorkerConfig, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_module, "PATIENCE_S", 0.2)
    with pytest.raises(RequestError, match="has not returned in") as refused:
        validate({**SOURCE, "connector.class": name_of(broken.ValidateHangs)}, worker)
    assert refused.value.refusal is Refusal.PLUGIN_FAILED
