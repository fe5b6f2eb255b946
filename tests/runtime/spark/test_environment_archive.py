"""Which packages an archive for the nodes holds."""

from __future__ import annotations

import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from connect_runtime.spark import environment_archive
from connect_runtime.spark.environment_archive import closure, pack
from connect_specs.diagnostics import Invalid


def _package(site: Path, name: str, *requires: str) -> Distribution:
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    lines = [f"Name: {name}", "Version: 1", *(f"Requires-Dist: {each}" for each in requires)]
    (info / "METADATA").write_text("\n".join(lines))
    (site / f"{name}.py").write_text(f"NAME = {name!r}\n")
    (info / "RECORD").write_text(f"{name}.py,,\n{info.name}/METADATA,,\n../../../bin/{name},,\n")
    return Distribution.at(info)


def test_requirements_are_followed_with_their_extras(tmp_path: Path) -> None:
    installed = {
        "root": _package(tmp_path, "root", "a>=1,<2", "b[fast] ; python_version > '3'", "pyspark"),
        "a": _package(tmp_path, "a", "a-dev ; extra == 'dev'"),
        "a-dev": _package(tmp_path, "a-dev"),
        "b": _package(tmp_path, "b", 'c ; extra == "fast"', "absent"),
        "c": _package(tmp_path, "c", "root"),
        "pyspark": _package(tmp_path, "pyspark", "py4j"),
        "other": _package(tmp_path, "other"),
    }
    assert closure(installed, {"root": ()}) == ["a", "b", "c", "root"]
    assert closure(installed, {"a": ("dev",)}) == ["a", "a-dev"]


def test_the_archive_is_an_environment_around_the_nodes_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    installed = {
        "connect-reconciler": _package(site, "connect_reconciler", "lib"),
        "lib": _package(site, "lib"),
    }
    monkeypatch.setattr(environment_archive, "_installed", lambda: installed)
    packed = pack(tmp_path / "env.tar.gz", "/opt/python3/bin/python3", ["support"])
    assert packed.packages == ["connect-reconciler", "lib"]
    assert "/opt/python3/bin/python3" in "\n".join(packed.needs)
    with tarfile.open(packed.file) as archive:
        names = archive.getnames()
        link = archive.getmember("bin/python")
        config = archive.extractfile("pyvenv.cfg")
        assert config is not None
        assert "home = /opt/python3/bin\n" in config.read().decode()
    assert (link.issym(), link.linkname) == (True, "/opt/python3/bin/python3")
    folder = environment_archive._site()
    assert f"{folder}/lib.py" in names
    assert f"{folder}/support/wait.py" in names
    assert not [name for name in names if ".." in name or "__pycache__" in name]
    assert packed.properties["spark.archives"] == f"{tmp_path}/env.tar.gz#environment"


def test_a_name_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no_such_module is neither"):
        pack(tmp_path / "env.tar.gz", "/p", ["no_such_module"])
    assert list(tmp_path.iterdir()) == []
