"""No secret of a launch is found where Spark keeps copies of what it carries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import pytest

from connect_runtime.kafka.local_processes import free_port
from connect_runtime.spark.attempts import SECRET, SECRET_FILE, new_key
from connect_runtime.spark.launcher import SparkLauncher
from connect_runtime.tasks.launch import AttemptEnd
from runtime.spark.bodies import body_in, launch
from runtime.spark.endings import Endings, running, wait_for_slots
from support import http
from support.spark_cluster import SparkCluster, spark_cluster
from support.wait import wait_until

pytestmark = pytest.mark.spark

_PASSWORD = "hunter2-is-no-secret"
_SETTING = "hunter3-is-for-the-store"


def _files(*folders: Path) -> Iterable[Path]:
    return (file for folder in folders for file in folder.rglob("*") if file.is_file())


def _holders(words: list[str], *folders: Path) -> list[str]:
    """Files with one of these words in them."""
    return [
        str(file)
        for file in _files(*folders)
        if any(word.encode() in file.read_bytes() for word in words)
    ]


def _command_lines() -> str:
    """Those of all processes, which other users can read, too. Empty where there is no /proc."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_bytes())
    return b"\n".join(found).decode(errors="replace")


def _pages(port: int) -> str:
    """What the UI and its REST API say of the environment and the jobs."""
    with http.client(f"http://127.0.0.1:{port}", timeout_s=20) as web:
        app = web.get("/api/v1/applications").json()[0]["id"]
        paths = ["/environment/", "/jobs/", "/executors/"]
        paths += [f"/api/v1/applications/{app}/{name}" for name in ("environment", "jobs")]
        return "\n".join(web.get(path).raise_for_status().text for path in paths)


@pytest.fixture
def short_lived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of copies of the files through which PySpark hands launches to the JVM."""
    kept = tmp_path / "kept"
    kept.mkdir()
    unlink = os.unlink

    def keep(path: str, *, dir_fd: int | None = None) -> None:
        if "pyspark-" in str(path):
            shutil.copy(path, kept)
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", keep)
    return kept


@pytest.mark.parametrize("where", ["local", pytest.param("cluster", marks=pytest.mark.long)])
def test_no_secret_is_found_on_disks_command_lines_and_pages(
    where: str, tmp_path: Path, short_lived: Path
) -> None:
    events, spark = tmp_path / "events", tmp_path / "spark"
    events.mkdir()
    ui = free_port()
    with _cluster(where, spark) as cluster:
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui),
            "spark.hadoop.fs.s3a.secret.key": _SETTING,
        }
        url = "local[2]" if cluster is None else cluster.url
        settings |= {} if cluster is None else cluster.settings
        data = tmp_path / "data"
        launcher = SparkLauncher(url, data, settings=settings, body=body_in(tmp_path))
        launcher.start()
        launcher.lead(1)
        try:
            wait_for_slots(launcher)
            endings = Endings()
            given = launch("wait", password=_PASSWORD)
            launcher.launch(given, endings)
            running(tmp_path, given)
            session = launcher._supervisor.session
            assert session is not None
            words = [_PASSWORD, session.key]
            of_spark = [_SETTING] if cluster is None else [_SETTING, cluster.secret]
            assert launcher.context.getConf().get("spark.network.crypto.enabled") == "true"
            own = [spark / "spark.properties"] if cluster else []
            # the setting reaches the JVM by a file that is private to its user
            private = [session._files.path / "spark.conf", *own]
            assert _holders(of_spark, data, events, spark) == list(map(str, private))
            assert all(file.stat().st_mode & 0o077 == 0 for file in private)
            assert _holders(words, data, events, spark, short_lived) == []
            assert list(_files(short_lived))
            shown = _pages(ui)
            assert "task wait-0, attempt 1" in shown
            # Spark knows the key's name on a cluster; the key would go out with each job from here
            assert (SECRET in shown) == (where == "cluster")
            assert SECRET not in launcher.context.environment
            assert SECRET not in os.environ
            for word in [*words, *of_spark]:
                assert word not in shown
                assert word not in _command_lines()
            launcher.kill(given.id, given.attempt)
            endings.wait("wait")
        finally:
            launcher.close()
        # what was written while it ended
        assert _holders([*words, *of_spark], data, events, spark) == list(map(str, own))
        assert list(_files(events))


def _cluster(where: str, folder: Path) -> AbstractContextManager[SparkCluster | None]:
    return nullcontext(None) if where == "local" else spark_cluster(folder)


@pytest.mark.long
def test_a_key_file_on_each_node_is_used_instead(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(new_key())
    settings = {f"spark.executorEnv.{SECRET_FILE}": str(file)}
    launcher = SparkLauncher(
        "local[2]", tmp_path / "data", settings=settings, body=body_in(tmp_path)
    )
    launcher.start()
    try:
        wait_for_slots(launcher)
        endings = Endings()
        launcher.launch(launch("echo", echo="1"), endings)
        assert endings.wait("echo").trace == "1"
        # another file than the driver read
        file.write_text(new_key())
        launcher.launch(launch("echo", attempt=2), endings)
        failed = endings.wait("echo", 2)
        assert (failed.ended, failed.dead) == (AttemptEnd.FAILED, True)
        assert "another key than this node's" in str(failed.trace)
        assert "Traceback" not in str(failed.trace)
        file.unlink()
        launcher.launch(launch("echo", attempt=3), endings)
        assert "cannot be read: No such file" in str(endings.wait("echo", 3).trace)
    finally:
        launcher.close()


def test_a_key_file_that_the_driver_cannot_read_is_a_problem(tmp_path: Path) -> None:
    settings = {f"spark.executorEnv.{SECRET_FILE}": str(tmp_path / "nowhere")}
    launcher = SparkLauncher("local[2]", tmp_path / "data", settings=settings)
    launcher.start()
    try:
        said = wait_until(lambda: launcher.problem, what="a problem")
        assert f"({SECRET_FILE}) cannot be read" in said
    finally:
        launcher.close()
