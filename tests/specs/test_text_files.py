"""Reading a file takes about as long as the file is large, whatever is in it."""

import time
from pathlib import Path

import pytest

from connect_specs.diagnostics import Invalid
from connect_specs.text_files import read_text


def test_many_beginnings_of_a_conflict_are_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("<<<<<<< a\n" * 200_000 + "=======\n" * 200_000)
    begun = time.process_time()
    read_text(file, "a.yaml")
    assert time.process_time() - begun < 5


def test_the_first_beginning_of_a_conflict_is_its_place(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("=======\n>>>>>>> x\n<<<<<<< a\n<<<<<<< b\n=======\n>>>>>>> c\n")
    with pytest.raises(Invalid) as caught:
        read_text(file, "a.yaml")
    assert str(caught.value.diagnostics[0].where) == "a.yaml:3:1"
