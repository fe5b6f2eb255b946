"""How long `up --detach` waits for a runtime that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connect_reconciler.cli import runtime_process
from connect_reconciler.cli.runtime_process import start_detached
from connect_specs.diagnostics import Failed
from support.projects import project_of

pytestmark = pytest.mark.long

TESTS = Path(__file__).parents[1]
PATIENCE_S = 6.0
LONGER_S = PATIENCE_S + 2
# A runtime as far as `up --detach` looks at it
RUNTIME = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from connect_reconciler.cli.runtime_process import announce, claimed, scanning
from support.projects import project_of

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "healthy"}')

folder, scan_s, start_s = sys.argv[1:]
project = project_of(folder=Path(folder))
with claimed(project):
    with scanning(project):
        time.sleep(float(scan_s))
    time.sleep(float(start_s))
    server = HTTPServer(("127.0.0.1", 0), Health)
    announce(project, f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()
"""


@pytest.fixture
def spawned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[float, float], None]]:
    """Has it start that runtime, which scans and starts for so long, and ends at the latest with
    the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def use(scan_s: float, start_s: float) -> None:
        def spawn(command: object, *, log: Path) -> int:
            words = [sys.executable, "-c", RUNTIME, str(tmp_path), str(scan_s), str(start_s)]
            environment = {**os.environ, "PYTHONPATH": str(TESTS)}
            with log.open("ab") as output:
                process = subprocess.Popen(words, stdout=output, stderr=output, env=environment)
            processes.append(process)
            return process.pid

        monkeypatch.setattr(runtime_process, "spawn", spawn)
        monkeypatch.setattr(runtime_process, "_PATIENCE_S", PATIENCE_S)
        monkeypatch.setattr(runtime_process, "_SCAN_SHOWN_S", PATIENCE_S / 2)

    yield use
    for process in processes:
        process.kill()
        process.wait()


def test_a_scan_of_plugins_may_take_longer_than_the_rest(
    spawned: Callable[[float, float], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spawned(LONGER_S, 0.0)
    assert not start_detached(project_of(folder=tmp_path), []).scanning
    assert "looking for Java plugins" in capsys.readouterr().err


def test_a_start_that_takes_too_long_is_ended(
    spawned: Callable[[float, float], None], tmp_path: Path
) -> None:
    spawned(0.0, LONGER_S)
    with pytest.raises(Failed) as error:
        start_detached(project_of(folder=tmp_path), [])
    assert error.value.diagnostics[0].code == "up.timeout"
