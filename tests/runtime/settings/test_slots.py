"""The slots of a machine follow from its memory, or from what a container may use of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.settings.slots import default_slots, memory_limit

GIB = 1 << 30
MACHINE = 32 * GIB


@pytest.mark.parametrize(
    ("memory", "fewest", "most"),
    [
        (0, 64, 64),
        (2 * GIB, 64, 64),
        (4 * GIB, 64, 120),
        (8 * GIB, 250, 400),
        (24 * GIB, 1000, 1000),
        (1024 * GIB, 1000, 1000),
    ],
)
def test_slots_grow_with_memory_within_bounds(memory: int, fewest: int, most: int) -> None:
    assert fewest <= default_slots(memory) <= most


def test_a_machine_of_2_gib_more_runs_more_than_100_further_tasks() -> None:
    assert 100 < default_slots(10 * GIB) - default_slots(8 * GIB) < 200


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        pytest.param(None, {}, MACHINE, id="no-cgroups"),
        pytest.param("0::/", {"memory.max": "max"}, MACHINE, id="v2-unlimited"),
        pytest.param("0::/", {"memory.max": "4294967296"}, 4 * GIB, id="v2-container"),
        pytest.param(
            "0::/a/b",
            {"a/memory.max": "2147483648", "a/b/memory.max": "max"},
            2 * GIB,
            id="v2-limit-of-a-parent",
        ),
        pytest.param(
            "0::/a/b",
            {"a/memory.max": "2147483648", "a/b/memory.max": "1073741824"},
            GIB,
            id="v2-lowest",
        ),
        pytest.param("0::/../host", {"memory.max": "4294967296"}, 4 * GIB, id="v2-path-outside"),
        pytest.param("0::/", {"memory.max": f"{64 * GIB}"}, MACHINE, id="more-than-the-machine"),
        pytest.param(
            "5:memory:/m\n0::/",
            {"memory/m/memory.limit_in_bytes": "3221225472"},
            3 * GIB,
            id="v1",
        ),
        pytest.param(
            "5:cpu,memory:/docker/x",
            {"memory/memory.limit_in_bytes": "3221225472"},
            3 * GIB,
            id="v1-path-of-the-host",
        ),
        pytest.param(
            "5:memory:/m",
            {"memory/m/memory.limit_in_bytes": "9223372036854771712"},
            MACHINE,
            id="v1-unlimited",
        ),
        pytest.param("5:memory:/m", {"memory/m/memory.limit_in_bytes": "?"}, MACHINE, id="odd"),
        pytest.param("odd\n0::/", {"memory.max": "4294967296"}, 4 * GIB, id="odd-line"),
    ],
)
def test_the_lowest_limit_holds(
    tmp_path: Path, groups: str | None, files: dict[str, str], limit: int
) -> None:
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(f"1:name=systemd:/\n{groups}\n")
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert memory_limit(tmp_path, MACHINE) == limit


def test_this_machine_has_a_limit() -> None:
    assert memory_limit() > 64 << 20
