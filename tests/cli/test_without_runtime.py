"""An installation without the extra `runtime`: it plans, and says what it lacks to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import connect_reconciler
import connect_runtime
import connect_specs

ABSENT = ("pyspark", "py4j")
HINT = "  hint: pip install '.[runtime]' in the folder of connect's sources\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connect.yaml").write_text("project: p\ncluster: {group.id: g, kafka: embedded}\n")
    config = "config: {connector.class: FileStreamSource, file: /x, topic: t}\n"
    (tmp_path / "connectors" / "a.yaml").write_text(f"name: a\n{config}")
    (tmp_path / "w.properties").write_text("bootstrap.servers=localhost:1\ngroup.id=g\n")
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command where all packages but those of the extra can be imported."""
    packages = folder / "packages"
    if not packages.exists():
        packages.mkdir()
        installed = [Path(each) for each in sys.path if each.endswith("-packages")]
        for each in (each for folder in installed for each in folder.iterdir()):
            if not each.name.startswith(ABSENT) and not (packages / each.name).exists():
                (packages / each.name).symlink_to(each)
    ours = (connect_specs, connect_runtime, connect_reconciler)
    sources = [str(Path(str(each.__file__)).parents[1]) for each in ours]
    return subprocess.run(
        # Without site: its packages are those of `packages` alone
        [sys.executable, "-S", "-P", "-m", "connect_reconciler.cli", *words],
        cwd=folder,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([*sources, str(packages)]),
            "CONNECT_CACHE": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["up", "--slots", "1"],
        ["up", "--detach"],
        ["distributed", "w.properties"],
        ["standalone", "w"],
    ],
)
def test_what_runs_connectors_names_the_extra(project: Path, words: list[str]) -> None:
    done = run(project, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[runtime.not-installed]: ")
    assert done.stderr.endswith(HINT)


@pytest.mark.parametrize("words", [["plan"], ["apply", "--yes"], ["status"]])
def test_a_first_verb_on_the_embedded_kafka_names_it_too(project: Path, words: list[str]) -> None:
    """Its jars come through PySpark."""
    done = run(project, *words)
    assert done.returncode == 3, done.stderr
    assert "internal" not in done.stderr
    assert done.stderr.endswith(HINT)


def test_files_are_checked_without_it(project: Path) -> None:
    done = run(project, "validate")
    assert (done.returncode, done.stderr) == (0, "")
