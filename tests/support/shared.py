"""What a run of tests starts once, however many workers it has: a folder that they all know.

The broker lives in it: the first worker that asks starts it, the others adopt it. What can be used
by one test at a time, a Connect worker or a broker with an authorizer, is started by the one worker
that gets all files that use it. Whatever was started here is ended by a process of its own when the
run ends, also when workers or the run itself were killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cached_property, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.embedded import EmbeddedBroker
from support.broker import BrokerAddress

FOLDER = pytest.StashKey[Path]()
# fixtures of which a run has one; the files that use it run in one worker, in turn
ONE_AT_A_TIME = ("oracle", "guarded", "rig")

_USED = pytest.StashKey[dict[str, str]]()
_DEFINITIONS = pytest.StashKey[dict[str, Any]]()
_ENDER = pytest.StashKey["subprocess.Popen[bytes]"]()
_GROUPS = "groups.json"
_ENDER_FILE = Path(__file__).with_name("ender.py")
_LONG_FIXTURES = {"rig", "connect"}
_LONG_MARKERS = ("oracle", "spark")


def configure(config: pytest.Config) -> None:
    """Makes the run's folder, or takes it from the process that leads the run."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is not None:
        config.stash[FOLDER] = Path(given["connect_shared"])
        return
    folder = config.stash[FOLDER] = Path(mkdtemp(prefix="connect-tests-"))
    config.stash[_ENDER] = subprocess.Popen(
        [sys.executable, "-P", str(_ENDER_FILE), str(folder)],
        stdin=subprocess.PIPE,
        # Ctrl-C is for the tests, which it ends first
        start_new_session=True,
    )


def unconfigure(config: pytest.Config) -> None:
    """Returns when all that the run shared is ended. Workers leave that to the run."""
    ender = config.stash.get(_ENDER, None)
    if ender is not None and ender.stdin is not None:
        ender.stdin.close()
        ender.wait()


def folder(config: pytest.Config, name: str) -> Path:
    """A new folder of the run's, named so and numbered."""
    return Path(mkdtemp(prefix=f"{name}-", dir=config.stash[FOLDER]))


def broker(config: pytest.Config, name: str) -> BrokerAddress:
    """The run's broker of that name, started if nobody asked for it yet."""
    found = EmbeddedBroker.start(config.stash[FOLDER] / name)
    if not found.adopted:
        _keep_old_records(found.bootstrap_servers)
    return BrokerAddress(found.bootstrap_servers, found.cluster_id)


def _keep_old_records(bootstrap_servers: str) -> None:
    """Records of tests have any time, and Kafka looks every five minutes for those of last week."""
    keep = ConfigEntry("log.retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    node = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[keep])
    client = admin({"bootstrap.servers": bootstrap_servers})
    client.incremental_alter_configs([node])[node].result(30)


def order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts first what takes long, so that no worker begins it at the end, and tells the run which
    files are to run in one worker."""
    used: dict[str, str] = {}
    definitions: dict[str, Any] = {}
    for item in items:
        for name in filter(partial(_is_shared, item), ONE_AT_A_TIME):
            assert used.setdefault(_file(item.nodeid), name) == name, f"{item.path} uses two"
            definitions[name] = item._fixtureinfo.name2fixturedefs[name][-1]  # type: ignore[attr-defined]
    config.stash[_USED], config.stash[_DEFINITIONS] = used, definitions
    # written anew by each worker, with the same content
    new = config.stash[FOLDER] / f"groups-{os.getpid()}"
    new.write_text(json.dumps(used))
    new.rename(config.stash[FOLDER] / _GROUPS)
    long = {item.path for item in items if _is_long(item)}
    brokers = {item.path for item in items if "broker" in _fixtures(item)}
    items.sort(
        key=lambda item: (
            used.get(_file(item.nodeid), "z"),
            item.path not in long,
            item.path not in brokers,
        )
    )


def end_unused(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Ends what is used by one test at a time after the last file that uses it: a broker that idles
    for the rest of the run costs as much as a start."""
    used = item.config.stash[_USED]
    name = used.get(_file(item.nodeid))
    if name is None or nextitem is None or used.get(_file(nextitem.nodeid)) == name:
        return
    assert isinstance(item, pytest.Function)
    item.config.stash[_DEFINITIONS][name].finish(item._request)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _fixtures(item: pytest.Item) -> set[str]:
    return {*item.fixturenames} if isinstance(item, pytest.Function) else set()


def _is_shared(item: pytest.Item, name: str) -> bool:
    """Whether it uses the run's fixture of that name; a file may have one of its own."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    return name in known and known[name][-1].scope == "session"


def _is_long(item: pytest.Item) -> bool:
    marked = any(item.get_closest_marker(name) for name in _LONG_MARKERS)
    return marked or not _LONG_FIXTURES.isdisjoint(_fixtures(item))


class Scheduling(LoadFileScheduling):
    """A worker gets a whole file at once, or all files that share what is used one at a time."""

    @cached_property
    def _groups(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.config.stash[FOLDER] / _GROUPS).read_bytes())
        return found

    def _split_scope(self, nodeid: str) -> str:
        file = _file(nodeid)
        return self._groups.get(file, file)

    def remove_node(self, node: WorkerController) -> str | None:
        # xdist gives all files of a worker that died to others, and one that gets a file without
        # tests left waits forever
        files = self.assigned_work[node]
        self.assigned_work[node] = {
            file: tests for file, tests in files.items() if not all(tests.values())
        }
        return super().remove_node(node)
