"""How long REST requests take on a worker that runs a hundred connectors, and what metrics cost it.

Both workers run side by side; each request goes to one and then to the other. A refusal after which
clients must ask again counts as part of its request.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks import worker as workers
from benchmarks.lives import start_many
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import SOURCE

# what it is, and the highest ratio of our median to Apache's
_ROWS: Final = {
    "status": ("`GET …/status`", 0.5),
    "config": ("`PUT …/config`, changed", 0.5),
    "stop": ("`PUT …/stop`", 0.5),
    "offsets": ("`PATCH …/offsets`", 0.5),
}
_TIMES: Final = 20
_STATUSES: Final = 10
_PATIENCE_S: Final = 120.0
_ENDED_S: Final = 10.0
# Prometheus asks every 15 s by default
_SCRAPES: Final = 40
_SCRAPE_EVERY_S: Final = 15.0
_METRICS_PER_CENT: Final = 1.0
_LABELS: Final = ("apache", "ours")


def requests(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Medians of each kind of request, in milliseconds."""
    took: dict[tuple[str, str], list[float]] = defaultdict(list)
    names = [f"request-{number}" for number in range(options.connectors)]
    with ExitStack() as stack:
        pair = []
        for label in _LABELS:
            place = folder / f"requests-{label}"
            running = workers.start(label, place, bootstrap, place.name)
            stack.callback(shutil.rmtree, place, ignore_errors=True)
            stack.callback(running.close)
            start_many(running, place, names, place.name)
            pair.append((running, place / f"{place.name}.txt"))
        for number in range(_TIMES):
            name = names[number % len(names)]
            for running, file in pair:
                asked = _asked(running, name, file, number)
                for request, seconds in asked:
                    took[running.label, request].append(seconds * 1000)
                each = {request: round(seconds * 1000, 1) for request, seconds in asked}
                print(f"{running.label:6}  {name:12}  {each}", flush=True)
        scraped = _scrapes_per_cent(pair[_LABELS.index("ours")][0])
    medians = {key: statistics.median(values) for key, values in took.items()}
    lines = [
        "## Requests\n",
        f"REST requests to workers that run {options.connectors} file sources, each to one worker "
        f"and then to the other; medians of {_TIMES}:\n",
        "| request | Apache, ms | connect, ms | ratio | goal |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    reached = True
    for request, (what, goal) in _ROWS.items():
        apache, ours = medians["apache", request], medians["ours", request]
        reached &= ours / apache <= goal
        lines.append(f"| {what} | {apache:.1f} | {ours:.1f} | {ours / apache:.2f} | ≤ {goal} |")
    lines.append(
        f"\nA Prometheus that asks for `/metrics` every {_SCRAPE_EVERY_S:.0f} s takes "
        f"{scraped:.2f} % of a core (goal: < {_METRICS_PER_CENT:.0f} %)."
    )
    return "\n".join(lines), reached and scraped < _METRICS_PER_CENT


def _scrapes_per_cent(worker: Worker) -> float:
    """CPU of all of the worker's processes for scrapes, in % of a core."""
    before = worker.cpu_times()
    for _ in range(_SCRAPES):
        worker.client.get(f"{worker.url}/metrics").raise_for_status()
    return 100 * worker.cpu_since(before) / _SCRAPES / _SCRAPE_EVERY_S


def _asked(worker: Worker, name: str, file: Path, number: int) -> list[tuple[str, float]]:
    """Takes one connector through all requests; returns what each took, in seconds."""
    path = f"/connectors/{name}"
    took = [("status", timed(worker, "GET", f"{path}/status")) for _ in range(_STATUSES)]
    config = {
        "connector.class": SOURCE,
        "file": str(file),
        "topic": f"request-{number}",
        "tasks.max": "1",
    }
    took.append(("config", timed(worker, "PUT", f"{path}/config", config)))
    _wait(worker, path, "RUNNING")
    took.append(("stop", timed(worker, "PUT", f"{path}/stop")))
    _wait(worker, path, "STOPPED")
    moved = {"partition": {"filename": str(file)}, "offset": {"position": 0}}
    took.append(("offsets", timed(worker, "PATCH", f"{path}/offsets", {"offsets": [moved]})))
    worker.call("PUT", f"{path}/resume")
    _wait(worker, path, "RUNNING")
    return took


def timed(worker: Worker, method: str, path: str, body: Any = None) -> float:
    """Seconds of one request on an open connection, by a client that costs little itself."""
    address = urlsplit(worker.url)
    content = None if body is None else json.dumps(body)
    headers = {} if body is None else {"Content-Type": "application/json"}
    client = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_PATIENCE_S)
    with closing(client):
        client.request("GET", "/")
        client.getresponse().read()
        began = time.monotonic()
        while True:
            client.request(method, path, content, headers)
            answer = client.getresponse()
            text = answer.read()
            if answer.status < 400:
                return time.monotonic() - began
            if answer.status != 409 and b"rebalance" not in text:
                raise RuntimeError(f"{method} {path} of {worker.label}: {answer.status} {text!r}")


def _wait(worker: Worker, path: str, state: str) -> None:
    """Until the connector and its task, if it has one, are there. A stopped one of Apache's may
    show a task that has ended for as long as it exists."""
    over = time.monotonic() + _ENDED_S

    def reached() -> bool:
        found: dict[str, Any] = worker.call("GET", f"{path}/status")
        tasks = [each["state"] for each in found["tasks"]]
        there = tasks == [state] if state == "RUNNING" else not tasks or time.monotonic() > over
        return there and found["connector"]["state"] == state

    wait_for(reached, f"{path} of {worker.label} to be {state}", _PATIENCE_S, 0.05)
