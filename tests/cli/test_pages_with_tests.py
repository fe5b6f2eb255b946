"""Pages about a connector's records: what they show is what happens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.pages import Page, holds

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", ["testing-connectors.md", "transforms.md", "errors.md"])
def test_what_the_page_shows_is_what_happens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    monkeypatch.setenv("PIP_TARGET", str(packages))
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")  # pip reads it as the opposite
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    monkeypatch.setenv("PYTHONPATH", str(packages))

    def followed(text: str) -> str:
        return Page(text, tmp_path / "project", {}).followed()

    holds(DOCS / name, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))
