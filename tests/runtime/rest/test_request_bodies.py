"""Bodies of requests that cannot be read: the answer says why, in words of our own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from runtime.rest.client import client_of, running_source

TABLE = yaml.safe_load(Path(__file__).with_name("request_bodies.yaml").read_text())
OFFSETS = "PATCH /connectors/fs/offsets"
UNREADABLE: list[tuple[str, str | bytes, str]] = [
    *((request, body, text) for request, cases in TABLE.items() for body, text in cases),
    ("POST /connectors", b'{"a\xff":1}', "The request's body is not JSON: 'utf-8' codec can't"),
    (OFFSETS, f'{{"offsets":{"9" * 5000}}}', "The request's body holds a number with too many"),
    (OFFSETS, "[" * 100_000, "The request's body has too many objects within"),
]


@pytest.mark.parametrize(("request_line", "body", "text"), UNREADABLE)
def test_an_invalid_body_is_refused_with_the_reason(
    request_line: str, body: str | bytes, text: str
) -> None:
    """The trap: the text of an exception of Java."""
    kind = {"content-type": "application/json"}
    answer = client_of(running_source())(*request_line.split(), body, kind)
    status = 400 if request_line.endswith("/validate") else 500
    assert answer.status_code == answer.json()["error_code"] == status
    assert answer.json()["message"].startswith(text)
    assert not re.search(r"java\.|apache|REDACTED|null\"", answer.json()["message"])
