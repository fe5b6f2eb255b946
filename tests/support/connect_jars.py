"""Other versions of Apache Kafka Connect, for tests alone: their jars, checked as the pinned ones.

Each is a whole worker's class path; the broker stays the pinned one.
"""

import os
from pathlib import Path

from connect_runtime.kafka import jars
from connect_runtime.kafka.jars import Jar

VERSIONS = ("3.6.2", "4.3.0")

_SUMS = Path(__file__).with_name("connect-jars.sha256")


def worker_classpath(version: str) -> str:
    """Java's class path of that version's worker, fetched first if need be."""
    if version == jars.KAFKA_VERSION:
        return jars.classpath("connect")
    wanted = tuple(_listed(version))
    folder = jars.cache_folder() / f"connect-{version}"
    if not jars._is_verified(folder, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        with jars._locked(folder.with_suffix(".lock")):
            missing = [jar for jar in wanted if not (folder / jar.file_name).is_file()]
            if missing:
                jars._fetch(missing, into=folder)
            jars._verify(wanted, folder)
            jars._mark_verified(folder, wanted)
    return f"{folder}{os.sep}*"


def _listed(version: str) -> list[Jar]:
    found = []
    for line in _SUMS.read_text().splitlines():
        sha256, listed, coordinates = line.split()
        if listed == f"connect-{version}":
            organisation, module, revision = coordinates.split(":")
            found.append(Jar(organisation, module, revision, sha256))
    assert found, f"no jars of Connect {version} are listed"
    return found
