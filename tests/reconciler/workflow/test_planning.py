"""From a project's files and its cluster to a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from connect_reconciler.backend.backend import Backend
from connect_reconciler.model.live import Live
from connect_reconciler.workflow.planning import observed
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Invalid
from support.applying import PROJECT, desired_of


class _Unreachable:
    """Stands for a cluster that must not be asked."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def observe(self, desired: Desired) -> Live:
        pytest.fail("the cluster was asked")


def test_properties_that_cannot_be_used_are_refused_before_the_cluster_is_asked() -> None:
    project = replace(
        PROJECT,
        kafka={"bootstrap.servers": "kafka:9092"},
        worker={"offset.flush.interval.ms": "soon"},
    )
    with pytest.raises(Invalid) as refusal:
        observed(cast(Backend, _Unreachable(project)), desired_of())
    assert "offset.flush.interval.ms" in refusal.value.diagnostics[0].what
