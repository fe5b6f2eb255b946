"""The jar cache: fetched through Ivy for real, with a list of one small jar."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from connect_runtime import KAFKA_VERSION, maven
from connect_runtime.kafka import jars
from connect_runtime.kafka.jars import jars_folder, read_list
from connect_runtime.maven import ArtifactsError

_SMALL = "org.jspecify:jspecify:1.0.0"
_SMALL_JAR = "jspecify-1.0.0.jar"
_SUM_OF_SOURCES = "adf0898191d55937fb3192ba971826f4f294292c4a960740f3c27310e7b70296"


def _sum_of_small() -> str:
    return next(jar.sha256 for jar in read_list("broker") if jar.file_name == _SMALL_JAR)


@pytest.fixture
def one_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a list with one jar in it; gives the list's path."""
    listed = tmp_path / "jars.sha256"
    listed.write_text(f"{_sum_of_small()}  broker  {_SMALL}\n")
    monkeypatch.setattr(jars, "_SUMS", listed)
    monkeypatch.setenv("CONNECT_CACHE", str(tmp_path / "cache"))
    return listed


def test_the_list_has_each_jar_once_and_one_kafka_version() -> None:
    every = [jar for jar_set in get_args(jars.JarSet) for jar in read_list(jar_set)]
    assert len({jar.file_name for jar in every}) == len(every)
    kafka = {jar.coordinate.version for jar in every if jar.coordinate.group == "org.apache.kafka"}
    assert kafka == {KAFKA_VERSION}


def test_fetches_once_then_reads_nothing_again(
    one_jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = jars_folder("broker")
    assert (folder / _SMALL_JAR).stat().st_size > 1000
    assert sorted(path.name for path in folder.parent.iterdir()) == ["broker", "broker.lock"]

    def refuse(*_: object) -> None:
        raise AssertionError("a verified jar was read again")

    monkeypatch.setattr(hashlib, "file_digest", refuse)
    assert jars_folder("broker") == folder


def test_a_file_with_a_classifier_has_it_in_its_name(one_jar: Path) -> None:
    one_jar.write_text(f"{_SUM_OF_SOURCES}  broker  {_SMALL}:sources\n")
    (jar,) = read_list("broker")
    assert (jars_folder("broker") / jar.file_name).name == "jspecify-1.0.0-sources.jar"
    assert (jars_folder("broker") / jar.file_name).is_file()


def test_a_download_with_another_sum_is_refused(one_jar: Path) -> None:
    one_jar.write_text(f"{'0' * 64}  broker  {_SMALL}\n")
    with pytest.raises(ArtifactsError, match=_SMALL_JAR):
        jars_folder("broker")
    left = jars.cache_folder() / f"kafka-{KAFKA_VERSION}" / "broker"
    assert list(left.iterdir()) == []


def test_a_changed_jar_is_named_removed_and_fetched_again(one_jar: Path) -> None:
    jar = jars_folder("broker") / _SMALL_JAR
    jar.write_bytes(b"something else")
    with pytest.raises(ArtifactsError, match=_SMALL_JAR):
        jars_folder("broker")
    assert not jar.exists()
    jars_folder("broker")
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == _sum_of_small()


@pytest.mark.long
def test_two_processes_at_once_fetch_once(one_jar: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from connect_runtime.kafka import jars;"
        "jars._SUMS = Path(sys.argv[1]); print(jars.jars_folder('broker'))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(one_jar)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    answers = {process.communicate(timeout=60)[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert answers == {f"{jars_folder('broker')}\n"}


def test_without_pyspark_the_error_says_what_to_install(
    one_jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "find_spec", lambda _: None)
    with pytest.raises(ArtifactsError) as caught:
        jars_folder("broker")
    assert ".[runtime]" in caught.value.diagnostics[0].hint


def test_a_repository_that_does_not_answer_is_an_error_with_a_hint(
    one_jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<artifact pattern="{tmp_path}/nothing/[artifact].[ext]"/></filesystem></resolvers>'
        "</ivysettings>"
    )
    monkeypatch.setenv("CONNECT_IVY_SETTINGS", str(settings))
    with pytest.raises(ArtifactsError) as caught:
        jars_folder("broker")
    assert "CONNECT_IVY_SETTINGS" in caught.value.diagnostics[0].hint


def test_finding_the_jars_does_not_import_pyspark() -> None:
    program = (
        "import sys; from connect_runtime.kafka.jars import classpath;"
        "from connect_runtime.maven import _find_ivy; classpath('broker'); _find_ivy();"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
