"""up and down: one runtime a folder, its own Kafka, everything there again after a kill."""

import contextlib
import json
import os
import pty
import signal
import ssl
import stat
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_runtime.kafka.embedded import find_broker
from connect_runtime.kafka.local_processes import is_alive, start_time
from connect_runtime.settings.slots import default_slots, memory_limit
from support.certificates import Authority, Certificate
from support.command import CONNECT, Command
from support.processes import of_session
from support.rig import committed_lines
from support.wait import wait_until

pytestmark = pytest.mark.spark

PROJECT = """\
project: p
cluster:
  group.id: p
  kafka: embedded
  worker: {value.converter: org.apache.kafka.connect.storage.StringConverter}
"""
WITH_LOGINS = PROJECT.replace("kafka: embedded", "kafka: {embedded: {authentication: sasl}}")
SPEC = """\
name: copy
config: {{connector.class: FileStreamSource, file: {file}, topic: lines}}
"""


@pytest.fixture
def connect(tmp_path: Path) -> Command:
    """The command as a process: it starts others."""
    return Command(tmp_path)


@pytest.fixture
def project(connect: Command) -> Iterator[Command]:
    """A project with a source of three lines, which is down at the end whatever happens."""
    connect.write("connect.yaml", PROJECT)
    file = connect.write("in.txt", "one\ntwo\nthree\n")
    connect.write("connectors/copy.yaml", SPEC.format(file=file))
    yield connect
    done = connect("down")
    assert done.returncode == 0, done.stderr


def _state(project: Command) -> tuple[str, list[str]]:
    (copy,) = json.loads(project("status", "--json").stdout)["connectors"]
    return copy["connector"]["state"], [task["state"] for task in copy["tasks"]]


def _wait_until_it_runs(project: Command) -> None:
    wait_until(
        lambda: _state(project) == ("RUNNING", ["RUNNING"]), what="the source to run", timeout_s=60
    )


def _wait_for_lines(kafka: str, topic: str, count: int) -> list[str]:
    def enough() -> list[str]:
        found = [*committed_lines(kafka, topic)]
        return found if len(found) >= count else []

    return wait_until(enough, what=f"{count} lines in {topic}")


def _slots(url: str) -> int:
    with urllib.request.urlopen(f"{url}/runtime", timeout=5) as answer:
        found: int = json.load(answer)["slots"]
        return found


def _for_everybody(authority: Authority, server: Certificate) -> str:
    """Worker properties: https alone, on all interfaces, with a login and certificates of an
    authority that the system does not know."""
    properties = {
        "rest.authentication": "basic",
        "rest.advertised.host.name": "127.0.0.1",
        "listeners": "https://0.0.0.0:0",
        "listeners.https.ssl.client.auth": "required",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.key": server.key.read_text(),
        "listeners.https.ssl.keystore.certificate.chain": server.certificate.read_text(),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(authority.own.certificate),
    }
    return ", ".join(f"{key}: {json.dumps(text)}" for key, text in properties.items())


def _log_in(project: Command, url: str, trusted: ssl.SSLContext) -> None:
    """Our verbs do so by themselves, and nobody gets in without the password."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/connectors", timeout=10, context=trusted)
    with refused.value as answer:
        assert answer.code == 401
    file = project.folder / ".connect" / "rest-password"
    passwords = [file.read_text().strip()]
    assert project("password", "--rotate").returncode == 0
    passwords.append(file.read_text().strip())
    stopped = project("stop", "copy")
    assert stopped.returncode == 0, stopped.stderr
    wait_until(lambda: _state(project) == ("STOPPED", []), what="the source to be stopped")
    log = (project.folder / ".connect" / "runtime.log").read_text()
    assert not [each for each in passwords if each in log]


def _metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.long
def test_paused_tasks_release_their_slots_where_the_worker_is_set_so(project: Command) -> None:
    """Two connectors take turns in the only slot: neither waits, and each line comes once."""
    released = "StringConverter, paused.tasks.release.slots: true}"
    project.write("connect.yaml", PROJECT.replace("StringConverter}", released))
    file = project.folder / "in.txt"
    (project.folder / "connectors" / "copy.yaml").unlink()
    up = project("up", "--detach", "--json", "--slots", "1")
    assert up.returncode == 0, up.stderr
    kafka, lines = json.loads(up.stdout)["kafka"], file.read_text().split()
    for turn, (runs, rests) in enumerate((("a", "b"), ("b", "a"), ("a", "b"))):
        for name, state in ((runs, "running"), (rests, "paused")):
            spec = SPEC.format(file=file).replace("copy", name).replace("lines", name)
            project.write(f"connectors/{name}.yaml", f"state: {state}\n{spec}")
        done = project("apply", "--yes")
        assert done.returncode == 0, done.stderr
        assert f"{runs}: running" in done.stdout and f"{rests}: paused" in done.stdout
        assert "plan.slots" not in done.stdout + done.stderr
        lines.append(f"line of turn {turn}")
        with file.open("a") as appended:
            appended.write(f"{lines[-1]}\n")
        assert _wait_for_lines(kafka, runs, len(lines)) == lines
    spec = project.folder / "connectors" / "b.yaml"
    spec.write_text(spec.read_text().replace("state: paused", "state: running"))
    assert "up to 2 tasks may run, and the runtime has 1 slots" in project("plan").stdout


def test_up_is_one_runtime_that_resumes_after_a_kill_and_down_ends_it(project: Command) -> None:
    """With a Kafka that asks for a login, which every verb has."""
    project.write("connect.yaml", WITH_LOGINS)
    data = project.folder / ".connect"
    data.mkdir(mode=0o755)
    planned = project("plan")
    assert planned.returncode == 0, planned.stderr
    assert stat.S_IMODE(data.stat().st_mode) == 0o700

    up = project("up", "--detach", "--json")
    assert up.returncode == 0, up.stderr
    running = json.loads(up.stdout)
    assert running["slots"] == default_slots(memory_limit())
    wait_until(lambda: _slots(running["url"]) == running["slots"], what="all slots")
    with urllib.request.urlopen(f"{running['url']}/health", timeout=5) as answer:
        assert answer.status == 200

    file, slots = project.folder / "in.txt", running["slots"]
    many = SPEC.format(file=f"{file}, tasks.max: {slots}").replace("copy", "many")
    spec = project.write("connectors/many.yaml", many)
    too_many = f"up to {slots + 1} tasks may run, and the runtime has {slots} slots"
    assert too_many in project("plan").stdout
    spec.unlink()

    for words in (["up"], ["up", "--detach"]):
        second = project(*words)
        assert second.returncode == 1
        assert "error[up.already]" in second.stderr
        assert f"pid {running['pid']}" in second.stderr

    applied = project("apply", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert "copy: running" in applied.stdout
    _wait_until_it_runs(project)
    wait_until(
        lambda: "copy: RUNNING, tasks 1/1 running" in project("logs", "copy").stdout,
        what="its state in its log",
    )
    written = 'kafka_connect_source_task_source_record_write_total{connector="copy",task="0"} 3'
    wait_until(lambda: written in _metrics(running["url"]), what="three lines to be counted")

    client = data / "client.properties"
    assert stat.S_IMODE(client.stat().st_mode) == 0o600
    assert "security.protocol=SASL_PLAINTEXT\n" in client.read_text()
    password = (data / "broker" / "password").read_text().strip()

    broker = find_broker(data / "broker")
    assert broker is not None
    assert len(of_session(running["pid"])) >= 4  # driver, JVM, Python daemon, one task
    os.kill(running["pid"], signal.SIGKILL)
    wait_until(lambda: not of_session(running["pid"]), what="its processes to be gone")
    text = (project.folder / ".connect" / "runtime.log").stat().st_size
    authority = Authority.make(project.folder / "tls")
    server = authority.sign("server")
    everybody = _for_everybody(authority, server)
    project.write("connect.yaml", WITH_LOGINS.replace("worker: {", f"worker: {{{everybody}, "))
    again = project("up", "--detach", "--json", "--log-format", "json")
    assert again.returncode == 0, again.stderr
    assert "every user of this machine" not in again.stderr
    assert find_broker(project.folder / ".connect" / "broker") == broker
    _wait_until_it_runs(project)
    trusted = ssl.create_default_context(cafile=authority.own.certificate)
    trusted.load_cert_chain(server.certificate, server.key)
    _log_in(project, json.loads(again.stdout)["url"], trusted)

    pid = json.loads(again.stdout)["pid"]
    started = start_time(pid)
    assert started is not None
    down = project("down", "--json")
    assert json.loads(down.stdout) == {"stopped": ["runtime", "kafka"]}
    assert not is_alive(pid, started)
    assert find_broker(project.folder / ".connect" / "broker") is None
    assert project("down").stdout == "nothing is running here\n"
    log = (project.folder / ".connect" / "runtime.log").read_text()
    assert "copy: RUNNING" in log
    lines = [json.loads(line) for line in log[text:].splitlines()]
    states = [each["message"] for each in lines if each.get("connector") == "copy"]
    assert "copy: RUNNING, tasks 1/1 running" in states
    assert json.loads(project("logs", "copy").stdout.splitlines()[-1])["connector"] == "copy"
    assert log.rindex("stopping: tasks") < log.rindex("stopping Kafka")
    assert "Traceback" not in log
    assert password not in log
    for verb in (planned, up, applied, again, down):
        assert password not in verb.stdout + verb.stderr


def test_what_goes_wrong_at_the_start_is_told_with_the_log(connect: Command) -> None:
    project = PROJECT.replace("embedded", "{bootstrap.servers: 'localhost:1'}")
    waits = "worker: {default.api.timeout.ms: '1000', "
    connect.write("connect.yaml", project.replace("worker: {", waits))
    done = connect("up", "--detach")
    assert done.returncode == 3
    assert "error[up.ended]" in done.stderr
    assert "localhost:1" in done.stderr


# Takes the terminal on stdin as its own, then becomes the command.
_ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.long
def test_a_closed_terminal_ends_the_runtime_and_its_kafka_in_order(project: Command) -> None:
    data = project.folder / ".connect"
    terminal, its_end = pty.openpty()
    try:
        up = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *CONNECT, "up"],
            cwd=project.folder,
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
            start_new_session=True,
        )
        os.close(its_end)
        drawn = threading.Thread(target=_drain, args=(terminal,), daemon=True)
        drawn.start()
        wait_until(lambda: _url(data), what="REST", timeout_s=90)
        assert find_broker(data / "broker") is not None
    finally:
        os.close(terminal)
    try:
        assert up.wait(60) == 0
    finally:
        up.kill()
    assert find_broker(data / "broker") is None
    assert not (data / "runtime.json").exists()
    log = data / "runtime.log"
    assert not log.exists() or "Traceback" not in log.read_text()
    assert not list(data.glob("connect-crash-*"))


def _url(data: Path) -> str:
    try:
        return str(json.loads((data / "runtime.json").read_text())["url"])
    except FileNotFoundError:
        return ""


def _drain(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass
