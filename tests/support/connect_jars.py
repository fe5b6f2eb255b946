"""Other versions of Apache Kafka Connect, connectors and databases, for tests alone: their jars and
archives, checked as the pinned ones.

Each version is a whole worker's class path; the broker stays the pinned one.
"""

import os
import tarfile
from pathlib import Path

import pytest

from connect_runtime import KAFKA_VERSION
from connect_runtime.kafka import jars
from connect_runtime.maven import ArtifactsError

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
    return fetched_files(f"debezium-{DEBEZIUM_VERSION}")


def fetched_files(name: str) -> list[Path]:
    """The jars or archives that are listed under a name, fetched first if need be."""
    return [_folder(name) / jar.file_name for jar in jars.read_list(name, _SUMS)]


def optional_files(name: str) -> list[Path]:
    """The same; a test that cannot have them is skipped, and says so."""
    try:
        return fetched_files(name)
    except ArtifactsError as error:
        pytest.skip(f"NOT TESTED: {name} cannot be fetched: {error}")


def add_plugin(name: str, plugin_path: Path) -> Path:
    """Puts what is listed under a name into a folder of plugin.path: jars as links, archives
    unpacked. Returns the folder."""
    folder = plugin_path / name
    folder.mkdir(parents=True)
    for file in optional_files(name):
        if file.suffix == ".jar":
            (folder / file.name).symlink_to(file)
        else:
            with tarfile.open(file) as archive:
                archive.extractall(folder, filter="data")
    return folder


def _folder(name: str) -> Path:
    listed = jars.read_list(name, _SUMS)
    assert listed, f"no jars of {name} are listed"
    return jars.fetch_jars(listed, jars.cache_folder() / name)
