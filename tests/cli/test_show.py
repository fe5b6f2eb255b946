"""show draws a saved plan where there is neither a project nor a cluster."""

import contextlib
import json
import os
import pty
import subprocess

import pytest

from connect_reconciler.render.plan_file import dump_plan
from support.command import CONNECT, Command
from support.plans import plan_with_everything

HEAD = "orders [prod] → https://connect.prod:8083, Kafka kafka-1:9092,kafka-2:9092, group orders: "


@pytest.fixture
def saved(connect: Command) -> Command:
    connect.write("my.plan", dump_plan(plan_with_everything()))
    return connect


def test_text(saved: Command) -> None:
    done = saved("show", "my.plan")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith(HEAD)
    assert "\n- z: delete (r; connectors/z.yaml:4)\n" in done.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_on_a_terminal_that_wants_it(saved: Command, no_color: str, coloured: bool) -> None:
    terminal, its_end = pty.openpty()
    environment = os.environ | {"NO_COLOR": no_color, "TERM": "xterm"}
    words = [*CONNECT, "show", "my.plan"]
    with subprocess.Popen(words, cwd=saved.folder, stdout=its_end, env=environment) as shown:
        os.close(its_end)
        text = b""
        # Linux ends a terminal whose other side is closed with an error, not with an empty read
        with contextlib.suppress(OSError):
            while more := os.read(terminal, 1 << 16):
                text += more
        assert shown.wait(timeout=60) == 0
    os.close(terminal)
    assert HEAD.encode() in text
    assert (b"\x1b[" in text) is coloured


def test_json_is_the_file_and_a_summary(saved: Command) -> None:
    document = json.loads(saved("show", "my.plan", "--json").stdout)
    assert document["plan"] == json.loads((saved.folder / "my.plan").read_text())
    assert document["summary"]["delete"] == 1
    assert document["summary"]["skip"] == 0


def test_markdown_begins_with_its_marker(saved: Command) -> None:
    done = saved("show", "my.plan", "--markdown")
    assert done.stdout.startswith("<!-- connect-plan:orders/prod -->\n\n### orders ")
    assert "1 to delete" in done.stdout.splitlines()[2]


def test_a_page_beside_the_result(saved: Command) -> None:
    done = saved("show", "my.plan", "--html", "out.html", "--json")
    assert done.returncode == 0
    json.loads(done.stdout)
    assert "out.html" in done.stderr
    page = (saved.folder / "out.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")


def test_stdout_is_one_result(saved: Command) -> None:
    done = saved("show", "my.plan", "--markdown", "--json")
    assert done.returncode == 2
    assert "--json and --markdown" in done.stderr
    unwritable = saved("show", "my.plan", "--html", "no/such/folder.html", "--json")
    assert unwritable.returncode == 2
    assert json.loads(unwritable.stdout)["error"]["exit_code"] == 2


def test_what_is_no_plan_is_refused(saved: Command) -> None:
    saved.write("other", "{}")
    done = saved("show", "other")
    assert done.returncode == 2
    assert "error[plan-file.not-a-plan]" in done.stderr
    assert saved("show", "nothing").returncode == 2
