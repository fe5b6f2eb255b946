"""show draws a saved plan where there is neither a project nor a cluster."""

import contextlib
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
