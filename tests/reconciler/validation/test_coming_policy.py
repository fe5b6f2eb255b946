"""Overrides that the default policy of Kafka 5.0 refuses are named before."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_reconciler.validation.keys import refused_later
from connect_specs.desired import Project, RestTarget
from support.projects import project_of

POLICY = "connector.client.config.override.policy"
DLQ = {"errors.deadletterqueue.topic.name": "d"}
OF_PRODUCER = {"producer.override.linger.ms": "5"}
OF_ALL = {**OF_PRODUCER, "consumer.override.linger.ms": "5", "admin.override.retries": "1"}


def project(worker: dict[str, str], target: RestTarget | None = None) -> Project:
    return project_of(
        name="p", target=target, worker=worker, folder=Path("/p"), specs=("connectors/",)
    )


@pytest.mark.parametrize(
    ("config", "is_sink", "named", "listed"),
    [
        ({}, False, None, None),
        (OF_PRODUCER, False, "(producer.override.linger.ms)", "linger.ms;"),
        # no producer of a sink exists without dead letters, so nothing is refused
        (OF_PRODUCER, True, None, None),
        ({**OF_PRODUCER, **DLQ}, True, "(producer.override.linger.ms)", "linger.ms;"),
        (
            OF_ALL,
            False,
            "(admin.override.retries, consumer.override.linger.ms, producer.override.linger.ms)",
            "linger.ms,retries;",
        ),
    ],
)
def test_overrides_are_named(
    config: dict[str, str], is_sink: bool, named: str | None, listed: str | None
) -> None:
    found = refused_later(project({}), [("a", config, is_sink)], "code")
    if named is None or listed is None:
        assert found == ()
        return
    (warning,) = found
    assert (warning.severity, warning.what.endswith(f": a {named}")) == ("warning", True)
    assert f"connector.client.config.override.allowlist: {listed}" in warning.hint


def test_one_warning_for_all_connectors() -> None:
    connectors = [(f"c{n}", OF_PRODUCER, False) for n in range(10)]
    (warning,) = refused_later(project({}), connectors, "code")
    assert warning.what.count("producer.override.linger.ms") == 8
    assert warning.what.endswith(" and 2 more connectors")


@pytest.mark.parametrize("policy", ["All", "None", "Principal", "Allowlist"])
def test_a_policy_that_connect_yaml_names_ends_it(policy: str) -> None:
    assert refused_later(project({POLICY: policy}), [("a", OF_ALL, False)], "code") == ()


def test_of_other_workers_it_says_how_to_end_it() -> None:
    target = RestTarget("http://connect:8083")
    (warning,) = refused_later(project({}, target), [("a", OF_ALL, False)], "code")
    assert "on the workers" in warning.hint
    assert warning.hint.endswith("write the policy under cluster.worker as well")
