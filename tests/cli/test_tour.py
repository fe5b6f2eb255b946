"""The tour of README.md shows what happens, command by command on a terminal; the demo runs."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
import yaml

from support.command import CONNECT, Command
from support.spark_cluster import spark_cluster
from support.wait import wait_until

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
# What differs between two runs
PASSING = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"\bin \d+\.\d s\b"), "in N s"),
    (re.compile(r"^\d+ slots:", re.MULTILINE), "N slots:"),
    (re.compile(r" +$", re.MULTILINE), ""),
)
DEMO_LINES = 3000


def tour() -> list[tuple[str, list[str]]]:
    """The blocks of the tour: their language and their lines."""
    text = (ROOT / "README.md").read_text()
    part = text[text.index("\n## A tour\n") : text.index("\n## Verbs\n")]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
    return [(language, lines.splitlines()) for language, lines in blocks]


def commands(block: list[str]) -> Iterator[tuple[list[str], str]]:
    """The words of each command of a block, and what is shown of its output."""
    text = "\n".join(block)
    for part in re.split(r"^\$ connect ", text, flags=re.MULTILINE)[1:]:
        words, _, shown = part.partition("\n")
        yield words.split(), shown.strip("\n")


def on_terminal(folder: Path, words: list[str], typed: str) -> str:
    """What a terminal shows of one command, with what is typed into it."""
    terminal, its_end = pty.openpty()
    drawn: list[bytes] = []

    def draw() -> None:
        # reading fails once nobody has the other end open
        while True:
            try:
                read = os.read(terminal, 4096)
            except OSError:
                return
            if not read:
                return
            drawn.append(read)

    process = subprocess.Popen(
        [*CONNECT, *words],
        cwd=folder,
        env=os.environ | {"COLUMNS": "100", "TERM": "dumb"},
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
    )
    os.close(its_end)
    drawing = Thread(target=draw)
    drawing.start()
    if typed:
        wait_until(lambda: b"[y/N]: " in b"".join(drawn), what="the question", timeout_s=60)
        os.write(terminal, typed.encode())
    code = process.wait(180)
    drawing.join(30)
    os.close(terminal)
    shown = b"".join(drawn).decode().replace("\r\n", "\n")
    assert code == 0, shown
    return shown


def alike(text: str, folder: Path) -> list[str]:
    text = text.replace(str(folder), "/home/me/orders")
    for passing, fixed in PASSING:
        text = passing.sub(fixed, text)
    return text.strip("\n").splitlines()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is as short as the tour's: plans cut long values."""
    with TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_the_tour_shows_what_happens(short: Path) -> None:
    folder = short / "orders"
    folder.mkdir()
    connect = Command(folder)
    spec = folder / "connectors" / "example.yaml"
    try:
        for language, block in tour():
            if language == "yaml" and block[0].startswith("name:"):
                shown = "\n".join(block).replace("/home/me/orders", str(folder))
                assert yaml.safe_load(shown) == yaml.safe_load(spec.read_text())
            elif language == "yaml":
                wait_until(lambda: has_offsets(connect), what="an offset of the source")
                spec.write_text(spec.read_text() + "\n".join(block) + "\n")
            for words, shown in commands(block):
                now = on_terminal(folder, words, "y\n" if "[y/N]: y" in shown else "")
                assert alike(now, folder) == alike(shown, folder), words
                if words == ["init"]:
                    listen_anywhere(folder / "connect.yaml")
    finally:
        down = connect("down")
    assert down.returncode == 0, down.stderr


def has_offsets(connect: Command) -> bool:
    return '"position": 14' in connect("offsets", "list", "example", "--json").stdout


def listen_anywhere(file: Path) -> None:
    """The port that the tour shows may be taken on this machine."""
    project = yaml.safe_load(file.read_text())
    worker = project["cluster"].get("worker") or {}
    project["cluster"]["worker"] = worker | {"listeners": "http://127.0.0.1:0"}
    file.write_text(yaml.safe_dump(project))


@pytest.mark.long
def test_the_demo_accounts_for_every_line() -> None:
    run_demo()


@pytest.mark.long
def test_the_demo_runs_on_a_spark_cluster(tmp_path: Path) -> None:
    with spark_cluster(tmp_path, secured=False) as spark:
        run_demo("--master", spark.url)


def run_demo(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo" / "run.py"), str(DEMO_LINES), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert f"{DEMO_LINES:,} lines are in the sink's file" in done.stdout
    assert "every line is accounted for" in done.stdout
