"""A real Prometheus that scrapes one runtime every second, and its `promtool`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support import http
from support.wait import wait_until

# The labels that Strimzi's example gives what it scrapes (kafka-connect's PodMonitor)
LABELS = {
    "strimzi_io_kind": "KafkaConnect",
    "strimzi_io_cluster": "c",
    "kubernetes_pod_name": "pod",
    "namespace": "ns",
}


def found() -> bool:
    """Whether this machine has both programs."""
    return all(map(shutil.which, ("prometheus", "promtool")))


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The samples of an instant query: labels and values."""
        answer = http.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=10)
        assert answer.is_success, answer.text
        result = answer.json()["data"]["result"]
        return [(each["metric"], float(each["value"][1])) for each in result]


def lint(page: str) -> list[str]:
    """What `promtool check metrics` says of a page. Raises AssertionError if it cannot parse it."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    return done.stderr.splitlines()


@contextmanager
def prometheus(scraped: str, folder: Path) -> Iterator[Prometheus]:
    """Scrapes the runtime at this URL."""
    labels = "".join(f"\n          {name}: {value}" for name, value in LABELS.items())
    config = folder / "prometheus.yml"
    config.write_text(
        f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: connect
    static_configs:
      - targets: ["{urlsplit(scraped).netloc}"]
        labels:{labels}
"""
    )
    address = f"{LOOPBACK}:{free_port()}"
    words = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", *words, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
    try:
        made = Prometheus(f"http://{address}")
        wait_until(lambda: _ready(made.url), what="Prometheus to be ready")
        yield made
    finally:
        process.terminate()
        process.wait(20)


def _ready(url: str) -> bool:
    try:
        return http.get(f"{url}/-/ready", timeout=5).is_success
    except httpx.TransportError:
        return False
