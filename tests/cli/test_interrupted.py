"""The first Ctrl-C ends whatever a verb waits for, with one line and no traceback."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.cli.signals import _Deadline, at_once, stop_requested
from support.broker import BrokerAddress
from support.command import CONNECT, Command
from support.own_broker import own_broker
from support.silent import SilentPort, silent_port
from support.wait import wait_until

# Two cores may be busy with other tests; what is ended by nothing goes on for 8 s at the least.
AT_ONCE_S = 6.0
NOTHING = "interrupted: nothing was changed\n"
SPEC = "name: a\nconfig: {connector.class: FileStreamSource, file: /x, topic: t}\n"

OVER_REST = [
    ["plan"],
    ["apply", "--yes"],
    ["status"],
    ["drift"],
    ["drift", "--watch"],
    ["doctor"],
    ["offsets", "list", "a"],
    ["import", "--all"],
    ["export", "--live"],
    ["plugins", "list"],
    ["restart", "--failed"],
    ["stop", "a"],
    ["delete", "a", "--yes"],
]
OVER_KAFKA = [*OVER_REST, ["history"], ["rollback", "some-apply"]]
# One that reads and one that writes; the others do as these each night
OFTEN = (["plan"], ["apply", "--yes"])


def verbs(lists: list[list[str]]) -> pytest.MarkDecorator:
    """Each in a test of its own."""
    rows = [
        pytest.param(words, id=" ".join(words), marks=() if words in OFTEN else pytest.mark.long)
        for words in lists
    ]
    return pytest.mark.parametrize("words", rows)


@pytest.fixture
def silent() -> Iterator[SilentPort]:
    with silent_port() as port:
        yield port


def project(connect: Command, cluster: str) -> Command:
    connect.write("connect.yaml", f"project: p\ncluster: {cluster}\n")
    connect.write("connectors/a.yaml", SPEC)
    return connect


def over_rest(connect: Command, silent: SilentPort) -> Command:
    return project(connect, f"{{group.id: g, target: {{rest: 'http://{silent.address}'}}}}")


def started(
    connect: Command, *words: str, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CONNECT, *words],
        cwd=connect.folder,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended_by(number: int, verb: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code and both outputs, after one signal."""
    begun = time.monotonic()
    verb.send_signal(number)
    try:
        shown, told = verb.communicate(timeout=4 * AT_ONCE_S)
    finally:
        verb.kill()
    assert time.monotonic() - begun < AT_ONCE_S, told
    return verb.returncode, shown, told


def in_python(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def when_it_waits(silent: SilentPort, verb: subprocess.Popen[str]) -> None:
    wait_until(lambda: silent.taken or verb.poll() is not None, what="a connection")
    assert verb.poll() is None, verb.communicate()


@verbs(OVER_REST)
def test_a_silent_rest_api(connect: Command, silent: SilentPort, words: list[str]) -> None:
    verb = started(over_rest(connect, silent), *words)
    when_it_waits(silent, verb)
    assert ended_by(signal.SIGINT, verb) == (130, "", NOTHING)


def test_a_long_wait_says_for_what(connect: Command, silent: SilentPort) -> None:
    verb = started(over_rest(connect, silent), "plan")
    assert verb.stderr is not None
    told = verb.stderr.readline()
    assert told == f"waiting for the answer to GET http://{silent.address}/\n"
    assert ended_by(signal.SIGINT, verb) == (130, "", NOTHING)


@verbs(OVER_KAFKA)
def test_a_silent_kafka(connect: Command, silent: SilentPort, words: list[str]) -> None:
    verb = started(
        project(connect, f"{{group.id: g, kafka: {{bootstrap.servers: '{silent.address}'}}}}"),
        *words,
    )
    when_it_waits(silent, verb)
    assert ended_by(signal.SIGINT, verb) == (130, "", NOTHING)


def test_a_request_that_changes_something_may_have_taken_place(
    connect: Command, silent: SilentPort
) -> None:
    verb = started(over_rest(connect, silent), "stop", "a", "--force")
    when_it_waits(silent, verb)
    assert ended_by(signal.SIGINT, verb) == (130, "", "interrupted\n")


def test_sigterm_ends_with_143(connect: Command, silent: SilentPort) -> None:
    verb = started(over_rest(connect, silent), "plan")
    when_it_waits(silent, verb)
    assert ended_by(signal.SIGTERM, verb) == (143, "", NOTHING)


def test_the_start_of_a_runtime(connect: Command, silent: SilentPort) -> None:
    kafka = f"{{bootstrap.servers: '{silent.address}'}}"
    verb = started(
        project(
            connect, f"{{group.id: g, kafka: {kafka}, worker: {{listeners: 'http://127.0.0.1:0'}}}}"
        ),
        "up",
    )
    when_it_waits(silent, verb)
    code, shown, told = ended_by(signal.SIGINT, verb)
    assert (code, shown) == (130, "")
    assert told.endswith("\ninterrupted\n")
    assert "Traceback" not in told


def test_the_question_whether_to_apply(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    project(connect, broker.cluster(unique))
    _, its_end = terminal = pty.openpty()
    verb = started(connect, "apply", stdin=its_end)
    try:
        assert verb.stderr is not None
        asked = ""
        while "[y/N]" not in asked:
            asked += verb.stderr.read(1)
        code, _, told = ended_by(signal.SIGINT, verb)
    finally:
        for end in terminal:
            os.close(end)
    assert code == 130
    assert told.strip() == NOTHING.strip()
    assert connect("plan", "--detailed-exitcode").returncode == 4


@pytest.mark.long
def test_a_kafka_that_falls_silent_under_a_verb(connect: Command, tmp_path: Path) -> None:
    """Its clients are open, with requests under way: none of them may hold up the end."""
    with own_broker(tmp_path / "broker") as own:
        way = own.ways[0]
        kafka = f"{{bootstrap.servers: '127.0.0.1:{way.port}'}}"
        project(connect, f"{{group.id: g, kafka: {kafka}}}")
        for waits_s in (0.2, 1.0, 3.0):
            verb = started(connect, "drift", "--watch", "--every", "0.1s")
            assert verb.stdout is not None
            verb.stdout.readline()
            with way.cut():
                cut = time.monotonic()
                wait_until(lambda: time.monotonic() > cut + waits_s, what="it to wait")  # noqa: B023
                code, _, told = ended_by(signal.SIGINT, verb)
            assert (code, told) == (130, NOTHING)


def test_an_exception_that_is_lost_ends_the_verb_all_the_same(connect: Command) -> None:
    """As in a destructor or a client's callback, where Python drops it."""
    script = (
        "import os, signal, sys, time\n"
        "from connect_reconciler.cli import entry\n"
        "class Lost:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0)\n"
        "def lost(argv):\n"
        "    Lost()\n"
        "    time.sleep(60)\n"
        "entry._invoke = lost\n"
        "sys.exit(entry.run(['plan']))\n"
    )
    begun = time.monotonic()
    done = in_python(script)
    assert (done.returncode, done.stderr) == (130, NOTHING)
    assert time.monotonic() - begun < AT_ONCE_S + 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_exception_that_is_replaced_is_an_interruption(number: int) -> None:
    """As in a client's constructor: C code raises an error of its own in place of Ctrl-C's."""
    script = (
        "import os, sys\n"
        "from connect_reconciler.cli import entry, signals\n"
        "def replaced(argv):\n"
        "    try:\n"
        "        with signals.raised_on_sigterm():\n"
        f"            os.kill(os.getpid(), {int(number)})\n"
        "            while True: pass\n"
        "    except BaseException: pass\n"
        "    raise TypeError('expected a dict')\n"
        "entry._invoke = replaced\n"
        "sys.exit(entry.run(['plan']))\n"
    )
    done = in_python(script)
    assert (done.returncode, done.stderr) == (128 + number, NOTHING)


def test_a_second_look_at_a_cluster_that_has_fallen_silent() -> None:
    """The lease is held by then, and no action has begun."""
    script = (
        "import contextlib, os, signal, sys, time\n"
        "from types import SimpleNamespace\n"
        "from connect_reconciler.cli import entry\n"
        "from connect_reconciler.cli.terminal import Terminal\n"
        "from connect_reconciler.workflow import apply as applying\n"
        "from connect_reconciler.workflow.user import Choices\n"
        "applying.apply_context = lambda *_, **__: contextlib.nullcontext('edges')\n"
        "def replan(shown):\n"
        "    print(time.monotonic(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "def apply(argv):\n"
        "    user = Terminal(yes=True, as_json=False)\n"
        "    source = SimpleNamespace(plan_under_lease=replan)\n"
        "    run = applying.ApplyRun(None, user, Choices(), source)\n"
        "    run._execute(SimpleNamespace(desired=None), replan=True)\n"
        "entry._invoke = apply\n"
        "sys.exit(entry.run(['apply']))\n"
    )
    done = in_python(script)
    assert (done.returncode, done.stderr) == (130, NOTHING)
    # How long imports take before is of no interest
    assert time.monotonic() - float(done.stdout) < AT_ONCE_S


def test_whoever_is_told_to_stop_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between two handlers must not end an apply in the middle of its actions."""
    seen: list[tuple[bool, bool]] = []
    real = signal.signal

    def change(number: int, handler: Any) -> Any:
        before = real(number, handler)
        both = (before, handler)
        gentle = any("stop_requested" in getattr(each, "__qualname__", "") for each in both)
        harsh = any("at_once" in getattr(each, "__qualname__", "") for each in both)
        seen.append((gentle and harsh, _Deadline.suspended))
        return before

    with stop_requested():
        monkeypatch.setattr(signal, "signal", change)
        with at_once():
            assert not _Deadline.suspended
        monkeypatch.undo()
    assert seen
    assert all(suspended for swapped, suspended in seen if swapped)


def test_a_watch(connect: Command, broker: BrokerAddress, unique: str) -> None:
    project(connect, broker.cluster(unique))
    verb = started(connect, "drift", "--watch", "--every", "1h")
    assert verb.stdout is not None
    verb.stdout.readline()
    code, _, told = ended_by(signal.SIGINT, verb)
    assert (code, told) == (130, NOTHING)
