"""The example that applies a branch from beside the cluster, with real git and a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.broker import BrokerAddress

SCRIPT = Path(__file__).parents[2] / "examples/beside-the-cluster/apply-from-git.sh"
SPEC = """\
name: {name}
state: stopped
config: {{connector.class: FileStreamSource, tasks.max: 1, file: /dev/null, topic: {name}}}
"""


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def apply_from_git(clone: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(SCRIPT), str(clone), "kafka"],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_what_is_merged_is_applied_where_ci_holds_no_login(
    broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    author, clone = tmp_path / "author", tmp_path / "clone"
    project = author / "kafka"
    (project / "connectors").mkdir(parents=True)
    (project / "connect.yaml").write_text(
        f"project: {unique}\n"
        "cluster:\n"
        f"  group.id: {unique}\n"
        f"  kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}\n"
    )

    def merge(name: str, text: str) -> str:
        (project / f"connectors/{name}.yaml").write_text(text)
        git(author, "add", ".")
        git(author, "commit", "-m", name)
        return git(author, "rev-parse", "HEAD")

    git(author, "init")
    first = merge("a", SPEC.format(name=f"{unique}-a"))
    git(tmp_path, "clone", "--quiet", str(author), str(clone))

    applied = apply_from_git(clone)
    assert applied.returncode == 0, applied.stderr
    assert f"applying {first}" in applied.stdout
    assert f"{unique}-a: create" in applied.stdout
    again = apply_from_git(clone)
    assert (again.returncode, again.stdout) == (0, "")

    merge("b", "name: b\nstate: sleeping\nconfig: {connector.class: FileStreamSource}\n")
    for _ in range(2):
        refused = apply_from_git(clone)
        assert refused.returncode == 2
        assert "connectors/b.yaml:2" in refused.stderr
    mended = merge("b", SPEC.format(name=f"{unique}-b"))
    last = apply_from_git(clone)
    assert last.returncode == 0, last.stderr
    assert f"applying {mended}" in last.stdout
    assert f"{unique}-b: create" in last.stdout
    assert f"{unique}-a: create" not in last.stdout
