"""Connector files of standalone mode (KIP-980): their content decides how they are read."""

import json
from pathlib import Path

import pytest

from connect_specs.desired import TargetState
from connect_specs.diagnostics import Invalid
from connect_specs.worker_files import FirstConnector, read_connector_files

CONFIG = {"connector.class": "FileStreamSource", "file": "é=1", "tasks.max": "1"}
NAMED = {"name": "c", **CONFIG}
PROPERTIES = "# first\nname=c\nconnector.class: FileStreamSource\nfile=\\u00e9=1\ntasks.max 1\n"


def read(folder: Path, **texts: str) -> tuple[FirstConnector, ...]:
    """Reads files of these names, a `_` for each dot."""
    files = []
    for name, text in texts.items():
        files.append(folder / name.replace("_", "."))
        files[-1].write_text(text, encoding="utf-8")
    return read_connector_files(files, folder)


def codes(caught: pytest.ExceptionInfo[Invalid]) -> list[tuple[str, str]]:
    return [(each.code, str(each.where)) for each in caught.value.diagnostics]


@pytest.mark.parametrize("name", ["a_json", "a_properties", "a_yaml", "a"])
@pytest.mark.parametrize(
    "text",
    [
        PROPERTIES,
        json.dumps(NAMED),
        "\n  " + json.dumps({"name": "c", "config": CONFIG}, indent=2),
        json.dumps({"name": "c", "config": NAMED, "initial_state": None}),
        # what GET /connectors/c answers
        json.dumps({"name": "c", "config": NAMED, "tasks": [{"task": 0}], "type": "source"}),
    ],
)
def test_each_form_is_recognized_by_its_content(tmp_path: Path, name: str, text: str) -> None:
    (found,) = read(tmp_path, **{name: text})
    assert (found.name, found.config, found.initial_state) == ("c", NAMED, None)


@pytest.mark.parametrize("written", ["stopped", "STOPPED", "Stopped"])
def test_the_first_state_is_in_any_case(tmp_path: Path, written: str) -> None:
    request = {"name": "c", "config": CONFIG, "initial_state": written}
    (found,) = read(tmp_path, a=json.dumps(request))
    assert found.initial_state is TargetState.STOPPED
    # beside the keys of a flat config it is one of them
    (found,) = read(tmp_path, a=json.dumps({**NAMED, "initial_state": written}))
    assert (found.initial_state, found.config["initial_state"]) == (None, written)


def test_json_is_utf_8_and_properties_may_be_latin_1(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes("name=c\nfile=\xe9\n".encode("latin-1"))
    (tmp_path / "b").write_bytes(b'\xef\xbb\xbf{"name": "d", "file": "\xc3\xa9"}')
    found = read_connector_files([tmp_path / "p", tmp_path / "b"], tmp_path)
    assert [each.config["file"] for each in found] == ["\xe9", "\xe9"]
    (tmp_path / "j").write_bytes('{"name": "c", "file": "\xe9"}'.encode("latin-1"))
    with pytest.raises(Invalid) as caught:
        read_connector_files([tmp_path / "j"], tmp_path)
    assert codes(caught) == [("file.encoding", "j:1:24")]


def test_numbers_are_taken_as_written(tmp_path: Path) -> None:
    (found,) = read(tmp_path, a='{"name": "c", "connector.class": "X", "n": 1.0, "b": true}')
    assert (found.config["n"], found.config["b"]) == ("1.0", "true")


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ('{"name": "c", "config": {"a": "b"}', "file.syntax", "a:1:35"),
        ("connector.class=X\n", "connector.no-name", "a:1:1"),
        ('{"connector.class": "X"}', "connector.no-name", "a:1:1"),
        ('{"config": {"name": "c"}}', "connector.no-name", "a:1:12"),
        ('{"name": "c", "config": {"name": "d"}}', "connector.name-differs", "a:1:10"),
        ('{"name": "c", "config": {}, "initial_state": "off"}', "spec.bad-state", "a:1:46"),
        ('{"name": "c", "x": {"y": "z"}}', "config.nested", "a:1:20"),
        ("name=a/b\n", "connector.bad-name", "a:1:6"),
        ("name=\n", "spec.bad-name", "a:1:6"),
        ("", "connector.no-name", "a:1:1"),
        # what `connect export` writes of several connectors
        ('\n[{"name": "a"}]', "connector.not-one", "a:2:1"),
    ],
)
def test_mistakes_are_told_with_their_places(
    tmp_path: Path, text: str, code: str, where: str
) -> None:
    with pytest.raises(Invalid) as caught:
        read(tmp_path, a=text)
    assert codes(caught) == [(code, where)]


def test_all_files_are_read_before_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        read(tmp_path, a=PROPERTIES, b="x=y", c=json.dumps(NAMED), d="{")
    assert [where.partition(":")[0] for _, where in codes(caught)] == ["b", "c", "d"]
    assert codes(caught)[1] == ("spec.duplicate-name", "c:1:10")
    assert caught.value.diagnostics[1].why == "its other file is a"


def test_files_keep_their_order(tmp_path: Path) -> None:
    found = read(tmp_path, b="name=z\n", a="name=y\n", c="name=x\n")
    assert [each.name for each in found] == ["z", "y", "x"]
