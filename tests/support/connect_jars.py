"""Other versions of Apache Kafka Connect, and Debezium, for tests alone: their jars, checked as the
pinned ones.

Each is a whole worker's class path; the broker stays the pinned one.
"""

import os
from pathlib import Path

from connect_runtime import KAFKA_VERSION
from connect_runtime.kafka import jars
from connect_runtime.kafka.jars import Jar

VERSIONS = ("3.6.2", "4.1.0")
DEBEZIUM_VERSION = "3.4.3.Final"

_SUMS = Path(__file__).with_name("connect-jars.sha256")


def worker_classpath(version: str) -> str:
    """Java's class path of that version's worker, fetched first if need be."""
    if version == KAFKA_VERSION:
        return jars.classpath("connect")
    return f"{_folder(f'connect-{version}')}{os.sep}*"


def debezium_jars() -> list[Path]:
    """The jars of Debezium's transformations, fetched first if need be."""
    return sorted(_folder(f"debezium-{DEBEZIUM_VERSION}").glob("*.jar"))


def _folder(name: str) -> Path:
    wanted = tuple(_listed(name))
    folder = jars.cache_folder() / name
    if not jars._is_verified(folder, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        with jars._locked(folder.with_name(f"{name}.lock")):
            missing = [jar for jar in wanted if not (folder / jar.file_name).is_file()]
            if missing:
                jars._fetch(missing, into=folder)
            jars._verify(wanted, folder)
            jars._mark_verified(folder, wanted)
    return folder


def _listed(name: str) -> list[Jar]:
    found = []
    for line in _SUMS.read_text().splitlines():
        sha256, listed, coordinates = line.split()
        if listed == name:
            organisation, module, revision = coordinates.split(":")
            found.append(Jar(organisation, module, revision, sha256))
    assert found, f"no jars of {name} are listed"
    return found
