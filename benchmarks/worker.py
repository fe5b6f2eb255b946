"""One Connect worker under test, ours or Apache's: started from the same file, driven by REST."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from connect_runtime.kafka.embedded import console_logging
from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.local_processes import LOOPBACK, find_java, free_port

# The options of Apache's start script
APACHE_OPTIONS = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# The logging of that script, on its output; its file has the same lines again
_LOGGING = console_logging("INFO", "[%d] %p %X{connector.context}%m (%c:%L)%n")
_START_S = 120.0
_RETRIES_S = 60.0
_master: str | None = None


@dataclass(frozen=True, slots=True)
class Worker:
    """A running worker. `label` is `apache` or `ours`."""

    label: str
    url: str
    bootstrap: str
    process: subprocess.Popen[bytes]
    client: httpx.Client

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request; conflicts and rebalances are tried again, as clients of Connect must."""
        deadline = time.monotonic() + _RETRIES_S
        while True:
            answer = self.client.request(method, f"{self.url}{path}", json=body)
            if answer.status_code < 400:
                return answer.json() if answer.content else None
            busy = answer.status_code == 409 or (
                answer.status_code == 500
                and ("rebalance" in answer.text or "retried" in answer.text)
            )
            if not busy or time.monotonic() > deadline:
                raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            time.sleep(0.05)

    def statuses(self) -> dict[str, Any]:
        """All connectors' statuses in one request."""
        found = self.call("GET", "/connectors?expand=status")
        return {name: each["status"] for name, each in found.items()}

    def cpu_times(self) -> dict[int, float]:
        """Seconds of user and system time by process: its own and all below it."""
        parents: dict[int, int] = {}
        times: dict[int, float] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            number = int(stat.parent.name)
            parents[number] = int(fields[1])
            times[number] = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        below = {self.process.pid}
        while True:
            more = {each for each, parent in parents.items() if parent in below} - below
            if not more:
                return {each: times[each] for each in below if each in times}
            below |= more

    def cpu_since(self, before: dict[int, float]) -> float:
        """Seconds of CPU since then, of the processes that there are now: one that has ended in
        between belonged to an earlier connector."""
        now = self.cpu_times().items()
        return sum(max(0.0, used - before.get(number, 0.0)) for number, used in now)

    def close(self) -> None:
        """Ends the worker and waits for it."""
        self.client.close()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float, every_s: float) -> None:
    """Polls until `condition` holds. Raises RuntimeError naming `what`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(every_s)


def start(
    label: str,
    folder: Path,
    bootstrap: str,
    group: str,
    *,
    slots: int = 128,
    settings: Mapping[str, str] | None = None,
) -> Worker:
    """Starts a worker and waits until its /health is 200. Apache's has no slots. `settings` are
    further properties."""
    folder.mkdir(parents=True)
    url = f"http://{LOOPBACK}:{free_port()}"
    file = folder / "worker.properties"
    file.write_text(_properties(bootstrap, group, url, folder, settings or {}))
    command = _apache(folder, file) if label == "apache" else _ours(file, slots)
    log = (folder / "worker.log").open("wb")
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    client = httpx.Client(timeout=120)

    def healthy() -> bool:
        if process.poll() is not None:
            tail = (folder / "worker.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{label} ended while it started:\n{tail}")
        try:
            return client.get(f"{url}/health").status_code == 200
        except httpx.TransportError:
            return False

    wait_for(healthy, f"{label} to be healthy", _START_S, 0.1)
    return Worker(label, url, bootstrap, process, client)


def run_on(master: str | None) -> None:
    """Sets where tasks of connect run from now on: on a Spark cluster, or on this machine."""
    global _master
    _master = master


def _ours(file: Path, slots: int) -> Sequence[str]:
    return [
        sys.executable,
        "-m",
        "connect_reconciler.cli",
        "distributed",
        str(file),
        *(["--master", _master] if _master else ["--slots", str(slots)]),
    ]


def _apache(folder: Path, file: Path) -> Sequence[str]:
    java = find_java()
    if java is None:
        raise RuntimeError("Java not found")
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    return [
        str(java),
        *APACHE_OPTIONS,
        f"-Dlog4j2.configurationFile={logging}",
        "-cp",
        classpath("connect"),
        "org.apache.kafka.connect.cli.ConnectDistributed",
        str(file),
    ]


def _properties(
    bootstrap: str, group: str, url: str, folder: Path, further: Mapping[str, str]
) -> str:
    (folder / "plugins").mkdir()
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": f"{group}-configs",
        "config.storage.replication.factor": "1",
        "offset.storage.topic": f"{group}-offsets",
        "offset.storage.replication.factor": "1",
        "status.storage.topic": f"{group}-status",
        "status.storage.replication.factor": "1",
        "exactly.once.source.support": "enabled",
        "listeners": url,
        "plugin.path": str(folder / "plugins"),
        "plugin.discovery": "service_load",
        **further,
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
