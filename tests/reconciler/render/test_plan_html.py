"""The page: safe and whole as text; in a real browser it folds, filters, searches and prints."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from connect_reconciler.actions import (
    Action,
    AlterOffsets,
    Create,
    Delete,
    FieldChange,
    OffsetMove,
    UpdateConfig,
)
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.render.blocks import NO_CHANGES, summary_line
from connect_reconciler.render.plan_html import render_html
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Diagnostic
from reconciler.render.plans import PLAN
from support.chromium import Browser, Page, chromium, found
from support.examples import examples
from support.plans import plan_with_everything

ROOT = Path(__file__).parents[3]
TAGS = {
    *("!doctype", "html", "head", "meta", "title", "style", "body", "header", "main", "section"),
    *("div", "p", "h1", "h2", "h3", "small", "code", "time", "input", "span", "button", "output"),
    *("details", "summary", "b", "article", "table", "thead", "tbody", "tr", "td", "th", "pre"),
    *("ul", "li", "script"),
}
EVIL = "<img src=http://127.0.0.1:9/x onerror=alert(1)><script>document.title='evil'</script>"
LONG = "select 1 " * 100


def _rewind(name: str) -> AlterOffsets:
    entry = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 1})
    move = OffsetMove(entry, None, "t-0 9 → 1: redelivers 8 offsets", "back")
    return AlterOffsets(connector=name, reason="r", pin="p", pin_hash="h", moves=(move,))


def _update(name: str) -> UpdateConfig:
    changes = (
        FieldChange("batch.size", Plain("1"), Plain("2"), "restart"),
        FieldChange("query", Plain(LONG), Plain(f"{LONG}!"), "reread", ("reads it all again",)),
        FieldChange("password", Secret("ab" * 32), Secret("cd" * 32)),
        FieldChange("evil", None, Plain(EVIL)),
    )
    return UpdateConfig(connector=name, reason="r", config={}, changes=changes)


def _create(name: str) -> Create:
    running = TargetState.RUNNING
    return Create(connector=name, reason="r", config={"topic": Plain(name)}, initial_state=running)


def _plan(*actions: Action) -> Plan:
    return Plan("orders", "orders", "c", 1_700_000_000_000, actions)


MIXED = replace(
    _plan(
        _create("orders-new"),
        _update("orders"),
        _rewind("payments"),
        Delete(connector=EVIL, reason="r"),
    ),
    errors=(Diagnostic("policy.deny", EVIL, EVIL, EVIL, EVIL),),
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = found()
    if program is None:
        pytest.skip("no Chromium on this machine")
    with chromium(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


class Shown:
    """The page of a plan in the browser."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.address = file.as_uri()

    def open(self, fragment: str = "") -> None:
        """Anew, as from a link."""
        self.page.open("about:blank")
        self.page.open(self.address + fragment)

    def names(self) -> list[str]:
        """The connectors that can be seen."""
        return self._list("block => block.querySelector('summary code').textContent")

    def unfolded(self) -> list[str]:
        """Those of them whose details can be seen."""
        return self._list(
            "block => block.open && block.querySelector('article').checkVisibility()"
            " ? block.querySelector('summary code').textContent : null"
        )

    def click(self, label: str) -> None:
        """A button, by the words on it."""
        self.page.value(
            "[...document.querySelectorAll('button')]"
            f".find(each => each.textContent.startsWith('{label}')).click()"
        )

    def _list(self, each: str) -> list[str]:
        found = self.page.value(
            "[...document.querySelectorAll('.block')].filter(block => block.checkVisibility())"
            f".map({each}).filter(name => name !== null)"
        )
        return list(found)


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Shown:
    file = tmp_path / "plan.html"
    file.write_text(render_html(MIXED))
    page = Shown(browser.page(), file)
    page.open()
    return page


def test_deletes_and_rewinds_are_first_and_unfolded(shown: Shown) -> None:
    assert shown.names() == [EVIL, "orders", "payments", "orders-new"]
    assert shown.unfolded() == [EVIL, "orders", "payments"]
    assert shown.page.value("document.querySelector('#count').value") == "4 connectors"


def test_fold_and_unfold(shown: Shown) -> None:
    shown.click("Unfold all")
    assert shown.unfolded() == shown.names()
    shown.click("Fold all")
    assert shown.unfolded() == []
    shown.page.value("document.querySelectorAll('.block summary')[1].click()")
    assert shown.unfolded() == ["orders"]


def test_filter_by_kinds_and_a_link_to_it(shown: Shown) -> None:
    shown.click("rewind")
    assert shown.names() == ["payments"]
    shown.click("create")
    assert shown.names() == ["payments", "orders-new"]
    assert shown.page.value("document.querySelector('#count').value") == "2 of 4 connectors"
    link = shown.page.value("location.hash")
    shown.open(link)
    assert shown.names() == ["payments", "orders-new"]
    shown.click("create")
    shown.click("rewind")
    assert len(shown.names()) == 4


def test_search_finds_names_keys_and_values(shown: Shown) -> None:
    """The diff for people as a page."""
    for words, names in (
        ("orders", ["orders", "orders-new"]),
        ("ORDERS batch", ["orders"]),
        ("delivers 8", ["payments"]),
        ("nothing like it", []),
    ):
        shown.open(f"#q={words.replace(' ', '+')}")
        assert shown.names() == names, words
    assert shown.page.value("document.querySelector('#none').checkVisibility()")
    assert not shown.page.value("document.querySelector('.blocks').checkVisibility()")
    shown.open("#filter=change&q=orders&open=all")
    assert shown.unfolded() == ["orders"]


def test_by_keyboard_alone(shown: Shown) -> None:
    shown.page.press("/", "/")
    for letter in "paym":
        shown.page.press(letter, letter)
    assert shown.page.value("document.activeElement.value") == "paym"
    assert shown.names() == ["payments"]
    assert shown.page.value("location.hash") == "#q=paym"
    shown.page.press("Escape")
    assert len(shown.names()) == 4
    reached = set()
    for _ in range(20):
        shown.page.press("Tab")
        reached.add(shown.page.value("document.activeElement.textContent.trim().split(' ')[0]"))
    assert {"create", "rewind", "delete", "Unfold", "Fold", "!", "+", "-"} <= reached


def test_it_loads_nothing_and_lets_nothing_else_run(shown: Shown) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        shown.open("#open=all")
        assert shown.page.requests() == [shown.address]
        assert shown.page.complaints() == []
        assert shown.page.value("document.title") == "Plan of orders"
        # What a mistake in escaping would let in does not get out
        image = f"<img src={address}>"
        shown.page.value(
            f"document.body.insertAdjacentHTML('beforeend', '{image}');"
            "const more = document.createElement('script');"
            "more.textContent = 'document.title = 1'; document.body.append(more)"
        )
        fetched = f"fetch('{address}').then(() => 'sent', () => 'refused')"
        assert shown.page.value(fetched) == "refused"
        assert shown.page.value("document.title") == "Plan of orders"
        assert len(shown.page.complaints()) >= 3
        with pytest.raises(TimeoutError):
            server.accept()


def test_it_prints_unfolded_and_without_controls(shown: Shown) -> None:
    shown.page.call("Emulation.setEmulatedMedia", media="print")
    shown.page.value("dispatchEvent(new Event('beforeprint'))")
    assert shown.unfolded() == shown.names()
    assert not shown.page.value("document.querySelector('#controls').checkVisibility()")
    shown.page.value("dispatchEvent(new Event('afterprint'))")
    assert shown.unfolded() == [EVIL, "orders", "payments"]
    assert len(shown.page.call("Page.printToPDF")["data"]) > 10_000


def test_dark_and_light(shown: Shown) -> None:
    backs = []
    for scheme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        shown.page.call("Emulation.setEmulatedMedia", features=features)
        backs.append(shown.page.value("getComputedStyle(document.body).backgroundColor"))
    assert backs == ["rgb(13, 17, 23)", "rgb(255, 255, 255)"]


def test_a_thousand_connectors_stay_fluid(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "plan.html"
    file.write_text(render_html(_plan(*(_update(f"c{number}") for number in range(1000)))))
    page = Shown(browser.page(), file)
    page.open()
    times: Any = page.page.value(
        """(() => {
          const search = document.querySelector("#search"), times = [];
          for (const text of ["c", "c1", "c12", "c123", "", "reads it all"]) {
            const start = performance.now();
            search.value = text;
            search.dispatchEvent(new Event("input"));
            document.body.offsetHeight;
            times.push(performance.now() - start);
          }
          return times;
        })()"""
    )
    # The first one reads all texts; a slow machine is far below this, too
    assert max(times) < 1500
    assert len(page.names()) == 1000


def test_long_values_are_whole_in_the_page_and_secrets_are_not_in_it() -> None:
    text = render_html(MIXED)
    assert f"<pre>{LONG}!</pre>" in text
    assert not re.search("(ab|cd){4}", text)


def test_every_action_is_in_the_page() -> None:
    text = render_html(plan_with_everything())
    for name in ("a", "b", "z"):
        assert f"<code>{name}</code>" in text
    assert f"<h1>{summary_line(plan_with_everything())}</h1>" in text
    assert NO_CHANGES in render_html(_plan())


def test_the_templates_are_in_the_package(tmp_path: Path) -> None:
    script = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, check=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("plan.html.j2", "plan.css", "plan.js"):
        assert f"connect_reconciler/render/templates/{name}" in names


@examples(50)
@given(PLAN)
def test_foreign_text_adds_no_markup(plan: Plan) -> None:
    text = render_html(plan)
    text.encode()
    assert text.count("<script") == text.count("</script") == 1
    assert "<img" not in text
    plain = re.sub(r"(?s)<(script|style)>.*?</\1>", "", text)
    tags = set(re.findall(r"</?([^\s>]*)", plain))
    assert tags <= TAGS
