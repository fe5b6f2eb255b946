"""Whatever a file holds: an error with its place and what to do, and never a bug's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from connect_reconciler.cli import entry

TABLE = yaml.safe_load(Path(__file__).with_name("malformed_files.yaml").read_text())
GOOD, PLACES, VALUES = TABLE["good"], TABLE["places"], TABLE["values"]
TEXTS = [*TABLE["texts"], "[" * 100_000, "{a: " * 3000]


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
