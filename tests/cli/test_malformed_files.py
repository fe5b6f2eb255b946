"""Whatever a file holds: an error with its place and what to do, and never a bug's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_reconciler.cli import entry

GOOD = {
    "connect.yaml": "project: p\ncluster:\n  group.id: g\n  kafka: {bootstrap.servers: 'h:1'}\n"
    "policies: [policies/]\n",
    "values/default.yaml": "a: 1\n",
    "consequences.yaml": "- match: {key: x}\n  consequence: none\n  says: s\n",
    "policies/p.yaml": "name: p\ndeny: 'false'\n",
    "connectors/a.yaml": "name: a\nconfig: {connector.class: FileStreamSource, topic: t}\n",
}
CONFIG = '"config": {"connector.class": "FileStreamSource", "topic": "t"}'
# Whole files, and values in them
TEXTS = [
    "",
    "null",
    "[]",
    "{}",
    "[[]]",
    "[1]",
    "[{}]",
    "{a: b}",
    "{a: [b]}",
    "{1: 2}",
    "{[a]: b}",
    "x",
    "1",
    "true",
    "1e999",
    "99999999999999999999",
    "'",
    '"',
    "[",
    "{",
    "*x",
    "&x [*x]",
    "!x y",
    "<<: 1",
    "a: b: c",
    "{{",
    "{{ b }}",
    "{{ a.b }}",
    "{% x %}",
    "\x00",
    "[" * 100_000,
    "{a: " * 3000,
]
PLACES = {
    "connect.yaml": [
        '{"project": @, "cluster": {"group.id": "g"}}',
        '{"project": "p", "cluster": @}',
        '{"project": "p", "cluster": {"group.id": @}}',
        '{"project": "p", "cluster": {"group.id": "g"}, "specs": @}',
        '{"project": "p", "cluster": {"group.id": "g"}, "policies": @}',
        *(
            f'{{"project": "p", "cluster": {{"group.id": "g", {inner}}}}}'
            for inner in (
                '"kafka": @',
                '"kafka": {"bootstrap.servers": @}',
                '"kafka": {"embedded": @}',
                '"kafka": {"embedded": {"authentication": @}}',
                '"target": @',
                '"target": {"rest": @}',
                '"target": {"rest": "http://h", "headers": @}',
                '"target": {"rest": "http://h", "headers": {"a": @}}',
                '"target": {"rest": "http://h", "timeouts": @}',
                '"target": {"rest": "http://h", "user": @, "password": "x"}',
                '"target": {"rest": "http://h", "user": "u", "password_file": @}',
                '"target": {"rest": "http://h", "ca_file": @}',
                '"topics": @',
                '"topics": {"config": @}',
                '"worker": @',
                '"worker": {"listeners": @}',
                '"worker": {"plugin.modules": @}',
            )
        ),
    ],
    "connectors/a.yaml": [
        f'{{"name": @, {CONFIG}}}',
        '{"name": "a", "config": @}',
        '{"name": "a", "config": {"connector.class": @}}',
        '{"name": "a", "config": {"connector.class": "FileStreamSource", "topic": @}}',
        *(
            f'{{"name": "a", {CONFIG}, {inner}}}'
            for inner in (
                '"state": @',
                '"sensitive": @',
                '"renamed_from": @',
                '"lifecycle": @',
                '"lifecycle": {"prevent_delete": @}',
                '"lifecycle": {"ignore": @}',
                '"offsets": @',
                '"offsets": {"pin": @, "reset": true}',
                '"offsets": {"pin": "x", "reset": @}',
                '"offsets": {"pin": "x", "to": @}',
                '"offsets": {"pin": "x", "set": @}',
                '"offsets": {"pin": "x", "set": [@]}',
                '"offsets": {"pin": "x", "set": [{"partition": @, "offset": {"a": 1}}]}',
                '"offsets": {"pin": "x", "set": [{"partition": {"a": 1}, "offset": @}]}',
                '"offsets": {"pin": "x", "set": [{"partition": {"a": 1}, "offset": {"a": @}}]}',
            )
        ),
        *(
            f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\n{inner}\n"
            for inner in (
                "metadata: @\nspec: {class: X}",
                "metadata: {name: @}\nspec: {class: X}",
                "metadata: {name: a}\nspec: @",
                "metadata: {name: a}\nspec: {class: @}",
                "metadata: {name: a}\nspec: {class: X, tasksMax: @}",
                "metadata: {name: a}\nspec: {class: X, config: @}",
                "metadata: {name: a}\nspec: {class: X, pause: @}",
            )
        ),
    ],
    "connectors/a.json": [f'{{"name": @, {CONFIG}}}', f'{{"name": "a", {CONFIG}, "offsets": @}}'],
    "connectors/a.properties": ["name=@", "connector.class=X\nname=a\n@", "name=a\\@", "\\u12@"],
    "consequences.yaml": [
        '[{"match": @, "consequence": "none", "says": "s"}]',
        '[{"match": {"key": @}, "consequence": "none", "says": "s"}]',
        '[{"match": {"key": "x"}, "consequence": @, "says": "s"}]',
        '[{"match": {"key": "x"}, "consequence": "none", "says": @}]',
    ],
    "policies/p.yaml": ['{"name": @, "deny": "false"}', '{"name": "p", "deny": @}'],
    "values/default.yaml": ["a: @", "sensitive: @", "'@': 1"],
    "plugins.lock.json": [
        '{"format": @}',
        '{"format": 1, "plugins": @}',
        '{"format": 1, "plugins": [@]}',
        '{"format": 1, "plugins": [{"class": "X", "type": @, "keys": []}]}',
        '{"format": 1, "plugins": [{"class": "X", "type": "sink", "keys": @}]}',
        '{"format": 1, "plugins": [{"class": "X", "type": "sink", "keys": [@]}]}',
    ],
}


# Of these, values at each place
VALUES = ["", "null", "[]", "{}", "[{}]", "{a: [b]}", "x", "1", "1e999", "*x", "{{ a.b }}"]


def _files() -> Iterator[tuple[str, str]]:
    for file, places in PLACES.items():
        yield from ((file, text) for text in TEXTS)
        for place in places:
            yield from ((file, place.replace("@", text or '""')) for text in VALUES)


def _judged(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    """What is wrong and what is warned of."""
    code = entry.run(words)
    said = json.loads(capsys.readouterr().out)
    assert code in (0, 2), (words, said)
    found = [*said.get("error", {}).get("diagnostics", []), *said.get("warnings", [])]
    return [dict(each) for each in found]


@pytest.mark.parametrize("file", PLACES)
def test_every_mistake_has_its_place_and_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    wrong = []
    for name, good in GOOD.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(good)
    if file.startswith("connectors/"):
        (tmp_path / "connectors" / "a.yaml").unlink()
    for changed, text in _files():
        if changed != file:
            continue
        (tmp_path / file).write_text(text)
        for each in _judged(capsys, "-C", str(tmp_path), "validate", "--json"):
            # `specs` may name what is not there, and so no file
            if not each["hint"] or not each.get("line") or each["code"] == "internal":
                wrong.append((text[:120], each))
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"


@pytest.mark.parametrize("text", TEXTS)
def test_files_that_are_no_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for each in (text, f'{{"format": "connect-plan", "format_version": 1, "actions": {text}}}'):
        (tmp_path / "saved.plan").write_text(each)
        code = entry.run(["-C", str(tmp_path), "show", "saved.plan", "--json"])
        said = json.loads(capsys.readouterr().out)["error"]["diagnostics"]
        assert code == 2
        for one in said:
            assert one["code"].startswith("plan-file."), one
            assert one["hint"], one
            assert one["file"] == "saved.plan", one


@pytest.mark.parametrize("text", TEXTS)
def test_offsets_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for name, good in GOOD.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(good)
    shapes = ["@", '{"offsets": @}', '{"offsets": [@]}', '{"offsets": [{"partition": @}]}']
    for shape in (*shapes, '{"offsets": [{"partition": {"a": 1}, "offset": @}]}'):
        (tmp_path / "o.json").write_text(shape.replace("@", text or '""'))
        words = ["-C", str(tmp_path), "offsets", "alter", "a", "o.json", "--json"]
        code = entry.run(words)
        said = json.loads(capsys.readouterr().out)["error"]["diagnostics"]
        assert code in (2, 3)
        for one in said if code == 2 else ():
            assert one["code"] != "internal", one
            assert one["hint"], one
