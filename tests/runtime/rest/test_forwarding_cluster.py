"""Runtimes of one group on a broker: what a standby is asked takes place once, on the leader."""

from __future__ import annotations

import contextlib
from collections import Counter

from connect_runtime.kafka.log import KafkaLogs
from connect_specs.names import ClusterTopics
from runtime.rest.client import SOURCE
from runtime.rest.clusters import create_topics, runtime_without_spark
from support import http
from support.broker import BrokerAddress
from support.losing import LosingProxy, losing
from support.wait import wait_until


def test_writes_of_a_standby_are_the_leaders(broker: BrokerAddress, unique: str) -> None:
    """Also if the leader's answer is lost, and while the leader changes."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    create_topics(client, unique)
    with contextlib.ExitStack() as second, contextlib.ExitStack() as first:
        proxies: list[LosingProxy] = []

        def behind_a_proxy(url: str) -> str:
            proxies.append(first.enter_context(losing(url)))
            return proxies[0].url

        _, leader = first.enter_context(runtime_without_spark(client, unique, behind_a_proxy))
        wait_until(lambda: leader.herder.leading, what="the first runtime to lead")
        (proxy,) = proxies
        served, standby = second.enter_context(runtime_without_spark(client, unique))
        url = f"http://127.0.0.1:{served.port}"
        with http.client(url, timeout_s=120) as asked:
            wait_until(
                lambda: asked.get("/health").status_code == 200, what="the second one to follow"
            )
            created = asked.post("/connectors", json={"name": "c", "config": SOURCE})
            assert created.status_code == 201
            assert created.headers["location"] == f"{url}/connectors/c"
            wait_until(lambda: asked.get("/connectors/c").status_code == 200, what="it to be read")
            assert created.json()["config"] == asked.get("/connectors/c").json()["config"]

            proxy.lose["PUT /connectors/c/pause?forward=true"] = "closed"
            lost = asked.put("/connectors/c/pause")
            assert lost.status_code == 500
            assert lost.json()["message"].startswith("IO Error trying to forward REST request: ")
            assert proxy.passed.count("PUT /connectors/c/pause?forward=true") == 1

            first.close()
            # until the group has noticed, the leader is one that is gone, or nobody
            answers = Counter[int]()

            def accepted() -> bool:
                found = asked.post("/connectors", json={"name": "d", "config": SOURCE})
                answers[found.status_code] += 1
                return found.status_code == 201

            wait_until(accepted, what="the second one to lead")
            assert standby.herder.leading
            assert {*answers} <= {201, 409, 500}
            assert (
                asked.post("/connectors", json={"name": "d", "config": SOURCE}).status_code == 409
            )
    logs = KafkaLogs(client)
    written = logs.reader(ClusterTopics.of(unique).config).read_to_end(30)
    logs.close()
    keys = Counter(record.key for record in written)
    assert keys[b"connector-c"] == keys[b"connector-d"] == keys[b"target-state-c"] == 1
