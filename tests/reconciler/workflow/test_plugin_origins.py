"""Where plugins of a list come from: installed ones, folders of plugin.path, and Python's."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from connect_reconciler.workflow.plugin_origins import origins_of
from connect_specs.desired import RestTarget
from support.projects import project_of

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def add_jar(file: Path, *classes: str) -> None:
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w") as archive:
        for name in classes:
            archive.writestr(f"{name.replace('.', '/')}.class", b"")


def test_a_plugin_comes_from_its_package_its_source_or_its_folder(tmp_path: Path) -> None:
    """Of a class that is ours, too, by its version; a class that is nowhere here has no origin."""
    entry = {"name": "sink", "from": [{"source": "com.example:sink:1.0", "artifacts": []}]}
    lock = {"format": 1, "installed": [entry]}
    (tmp_path / "plugins.lock.json").write_text(json.dumps(lock))
    add_jar(tmp_path / ".connect" / "plugins" / "sink" / "lib" / "sink.jar", "com.example.Sink$Of")
    path = tmp_path / "path"
    add_jar(path / "debezium" / "lib" / "core.jar", UNWRAP, "com.example.Sink$Of")
    listed = [
        (FILE, "4.3.1"),
        (UNWRAP, "0.1.0"),
        (UNWRAP, "3.6.1.Final"),
        ("com.example.Sink$Of", None),
        ("com.example.Elsewhere", "1.0"),
    ]
    assert origins_of(project_of(folder=tmp_path, worker={"plugin.path": str(path)}), listed) == {
        (FILE, "4.3.1"): "built in",
        (UNWRAP, "0.1.0"): "built in",
        (UNWRAP, "3.6.1.Final"): str(path / "debezium"),
        ("com.example.Sink$Of", None): "com.example:sink:1.0",
    }


def test_plugins_of_another_connect_cluster_come_from_elsewhere(tmp_path: Path) -> None:
    project = project_of(folder=tmp_path, target=RestTarget("http://localhost:8083"))
    assert not origins_of(project, [(FILE, "4.3.1")])
