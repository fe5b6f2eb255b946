"""Launches encrypted with a key that travels separately."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.spark.sealing import (
    SECRET,
    SECRET_FILE,
    Unreadable,
    key_in,
    key_of,
    new_key,
    seal,
    unseal,
)


def test_only_the_same_key_opens_what_was_sealed() -> None:
    key = new_key()
    token = seal("pässword", key)
    assert "pässword" not in token
    assert unseal(token, key) == "pässword"
    with pytest.raises(Unreadable, match="another key than this node's"):
        unseal(token, new_key())
    with pytest.raises(Unreadable):
        unseal(token[:-8], key)


def test_a_key_comes_from_the_file_before_the_environment(tmp_path: Path) -> None:
    key, other = new_key(), new_key()
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    assert key_in(file) == key
    assert key_of({SECRET: other}) == other
    assert key_of({SECRET: other, SECRET_FILE: str(file)}) == key


def test_without_a_key_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=f"Neither {SECRET} nor {SECRET_FILE}"):
        key_of({})
    with pytest.raises(Unreadable, match=r"nowhere .* cannot be read: No such file"):
        key_of({SECRET_FILE: str(tmp_path / "nowhere")})
    file = tmp_path / "key"
    file.write_text("hunter2")
    with pytest.raises(Unreadable, match="not a Fernet key") as caught:
        key_in(file)
    assert "hunter2" not in str(caught.value)
