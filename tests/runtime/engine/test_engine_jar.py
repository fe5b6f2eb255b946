"""Which jar of the engine is used: a wheel's, or one that is compiled from the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.engine import engine_jar


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine's package with one source, whose compiler writes its name."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "Engine.java").write_text("class Engine { }")
    monkeypatch.setattr(engine_jar, "__file__", str(tmp_path / "engine_jar.py"))
    monkeypatch.setattr(engine_jar, "_SOURCES", tmp_path / "source")
    monkeypatch.setattr(engine_jar, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(engine_jar, "_compile", lambda jar, libraries: jar.write_text("compiled"))
    monkeypatch.setattr(engine_jar, "_libraries", tuple)
    return tmp_path


def test_a_wheels_jar_is_used_and_nothing_compiled(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine_jar.main(["package"]) == 0
    jar = Path(capsys.readouterr().out.strip())
    assert jar.parent == package
    assert engine_jar._compiled(()) == jar
    assert not (package / "cache").exists()


def test_a_jar_of_other_sources_is_not_used_and_is_replaced(package: Path) -> None:
    engine_jar.main(["package"])
    (earlier,) = package.glob("engine-*.jar")
    (package / "source" / "Engine.java").write_text("class Engine { int changed; }")
    compiled = engine_jar._compiled(())
    assert (compiled.parent, compiled.name == earlier.name) == (package / "cache" / "engine", False)
    engine_jar.main(["package"])
    assert [jar.name for jar in package.glob("engine-*.jar")] == [compiled.name]


def test_a_wrong_command_line_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_jar.main(["other"]) == 2
    assert "usage: " in capsys.readouterr().err
