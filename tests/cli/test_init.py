"""A first project: written, valid, never written over."""

import errno
import json
import os
from pathlib import Path

import pytest

from connect_reconciler.cli import entry, project_files
from support.command import Command


def test_init_writes_a_project_that_is_valid(connect: Command) -> None:
    done = connect("init")
    assert done.returncode == 0
    told = [line.strip() for line in done.stdout.partition("Next:\n")[2].splitlines()]
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    steps = [" ".join(line.split("  ")[0].split()) for line in told]
    assert steps == ["connect up --detach", "connect apply", "connect status"]
    places = [readme.index(f"$ {step}\n") for step in steps]
    assert places == sorted(places)
    assert (connect.folder / "connectors" / "example.yaml").is_file()
    checked = connect("validate")
    assert checked.returncode == 0
    assert "1 connector, no mistakes" in checked.stdout


def test_init_in_a_folder_with_an_awkward_name(connect: Command) -> None:
    folder = connect.folder / 'My "Orders": été #1'
    folder.mkdir()
    assert connect("-C", str(folder), "init").returncode == 0
    checked = connect("-C", str(folder), "validate", "--json")
    assert json.loads(checked.stdout) == {
        "project": "my-orders-t-1",
        "connectors": ["example"],
        "warnings": [],
    }


def test_init_does_not_overwrite(connect: Command) -> None:
    file = connect.folder / "connect.yaml"
    file.write_text("mine")
    done = connect("init")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "error[init.exists]: connect.yaml" in done.stderr
    assert [path.name for path in connect.folder.iterdir()] == ["connect.yaml"]
    assert file.read_text() == "mine"


def test_a_full_disk_leaves_nothing_of_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trap: the next init refuses to overwrite what the first one left."""
    write = project_files.replace_file

    def full(file: Path, content: str, **more: int) -> None:
        if file.name == "lines.txt":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f".{file.name}.new")
        write(file, content, **more)

    monkeypatch.setattr(project_files, "replace_file", full)
    assert entry.run(["-C", str(tmp_path), "init"]) == 2
    told = capsys.readouterr().err
    assert f"error[file.unwritable]: {tmp_path}/lines.txt: " in told
    assert "hint: free some space" in told
    assert list(tmp_path.iterdir()) == []


def test_validate_works_from_a_folder_below(connect: Command) -> None:
    connect("init")
    below = connect.folder / "connectors"
    assert Command(below)("validate").returncode == 0
