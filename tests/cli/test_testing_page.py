"""docs/testing-connectors.md: what the page shows is what happens."""

from __future__ import annotations

import os
from pathlib import Path

from support.pages import Page, holds

PAGE = Path(__file__).parents[2] / "docs" / "testing-connectors.md"


def test_what_the_page_shows_is_what_happens(tmp_path: Path) -> None:
    def followed(text: str) -> str:
        return Page(text, tmp_path, {}).followed()

    holds(PAGE, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))
