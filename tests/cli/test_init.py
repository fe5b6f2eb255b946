"""A first project: written, valid, never written over."""

import errno
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
