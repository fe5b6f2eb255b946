"""Apicurio's Avro converter with its registry, on a real worker and on ours: the same bytes, which
the same converter reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from oracle.java_sides import OurSide, TheirSide, lines, our_side, records, their_side
from support import http
from support.broker import BrokerAddress
from support.connect_jars import add_plugin
from support.java_plugins import SINK, SOURCE, add_compiled
from support.registry import registry
from support.thread_cluster import STRING
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
NUMBER = "apicurio.value.globalId"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as url:
        yield url


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, url: str) -> Mapping[str, str]:
    """The worker's own converter is that of the registry; no manifest names its class."""
    folder = tmp_path_factory.mktemp("avro") / "plugins"
    add_compiled("Differing", {SOURCE: "tests.Differing"}, folder)
    add_compiled("Counting", {SINK: "tests.Counting$Lines"}, folder)
    add_plugin("apicurio-converter", folder)
    return {
        "plugin.path": str(folder),
        "key.converter": STRING,
        "value.converter": AVRO,
        "plugin.discovery": "hybrid_warn",
        "value.converter.apicurio.registry.url": url,
        "value.converter.apicurio.registry.auto-register": "true",
    }


def test_records_with_schemas_are_the_same(
    broker: BrokerAddress,
    settings: Mapping[str, str],
    url: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    unique: str,
) -> None:
    folder = tmp_path_factory.mktemp("avro-worker")
    with (
        their_side(broker, folder, settings, exactly_once=True) as theirs,
        our_side(broker, f"ours-{folder.name}", settings) as ours,
    ):
        of_sides = {side.letter: _moved(side, tmp_path, unique) for side in (theirs, ours)}
    assert of_sides["o"] == of_sides["a"]
    bodies, texts = of_sides["a"]
    assert len(set(bodies)) == 3
    assert texts[0] == "Struct{number=1,note=note 1}"
    artifacts = http.get(f"{url}/search/artifacts").json()["artifacts"]
    assert {f"{letter}-{unique}-value" for letter in "ao"} <= {each["id"] for each in artifacts}


def _moved(side: TheirSide | OurSide, folder: Path, unique: str) -> tuple[list[bytes], list[str]]:
    """Returns the values that a source writes, and the lines that a sink reads."""
    topic, file = f"{side.letter}-{unique}", folder / f"{side.letter}-lines"
    source = {"name": topic, "connector.class": "tests.Differing", "topic": topic}
    source |= {"mode": "structs", "tasks.max": "1", "reports": str(folder / side.letter)}
    sink = {"name": f"{topic}-sink", "connector.class": "tests.Counting$Lines", "topics": topic}
    side.put(source)
    sent = records(side, topic, 3)
    side.put({**sink, "path": str(file)})
    wait_until(lambda: len(lines(file)) >= 3, what="the sink's lines", timeout_s=180)
    for config in (source, sink):
        side.delete(config["name"])
    # the schema's number in the registry is in a header
    assert all(dict(headers)[NUMBER] for _, _, headers in sent)
    return [value for _, value, _ in sent], lines(file)
