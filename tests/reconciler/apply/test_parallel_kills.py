"""An apply that is killed with several connectors under way, and run again.

Each connector that is under way then is wherever its thread has got to: every set of done actions
that can be is tried, with every subset of those in flight having taken place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply import scheduler
from connect_specs.desired import Desired
from support.applying import Applying
from support.crash_cases import Case, build, case, check_end, watched
from support.dooming import DoomedCluster, DoomedLogs, DoomOfMany, End, Killed
from support.examples import examples
from support.fake_cluster import FakeCluster

NAMES = ("a", "b/c", "d", "e")
MOST_CALLS = 14

cases = st.tuples(*(case(name) for name in NAMES))
end = st.one_of(st.none(), st.builds(End, st.integers(1, MOST_CALLS), st.booleans()))
ends = st.lists(end, min_size=len(NAMES), max_size=len(NAMES))

# What an action asks of the cluster, where that is one request whose effect can be seen
VERBS: Mapping[str, str] = {
    "create": "create",
    "change config": "update_config",
    "stop": "stopped",
    "stop old": "stopped",
    "pause": "paused",
    "resume": "running",
    "delete": "delete",
    "delete old": "delete",
}


def killed(world: Applying, desired: Desired, doom: DoomOfMany) -> None:
    """An apply that may be killed."""
    cluster = DoomedCluster(world.kafka)
    cluster.doom = doom
    watched(cluster, world, desired)
    with pytest.MonkeyPatch.context() as patched, suppress(Killed):
        patched.setattr(scheduler, "run_jobs", lambda jobs, _: doom.run(jobs))
        logs = DoomedLogs(world.kafka.logs, doom)
        report = world.apply(desired, cluster=cluster, ledger_logs=logs)
        assert report.exit_code == 0, report


def check_told(plan: Plan, doom: DoomOfMany, before: frozenset[str] = frozenset()) -> None:
    """What the next plan says of what is half done is so. What was done `before`, by the apply that
    was killed earlier, may be so still."""
    told = [each.what for each in plan.warnings if each.code == "plan.unfinished-apply"]
    assert bool(told) is bool(doom.dead)
    for text in told:
        found = re.search(r"in the middle of `(.+) (\S+)`: (.+)", text)
        if found is None or found[1] not in VERBS:
            continue
        # The old name of a rename may have been stopped all the time
        if found[1] == "stop old" and found[3] == "whether it took place cannot be told":
            continue
        asked = f"{VERBS[found[1]]} {found[2]}"
        if asked in doom.done or asked not in before:
            took_place = asked in doom.done
            assert found[3] == f"it {'took' if took_place else 'did not take'} place", text


def again(world: Applying, desired: Desired) -> None:
    report = world.apply(desired, cluster=watched(FakeCluster(world.kafka), world, desired))
    assert report.exit_code == 0, report
    assert not [each for each in world.plan(desired).warnings if "unfinished" in each.code]


@given(cases, ends, ends, ends)
@examples(40)
def test_killed_with_any_actions_done_and_any_in_flight_it_converges(
    found: Sequence[Case],
    first: list[End | None],
    second: list[End | None],
    last: list[End | None],
) -> None:
    """Killed twice, then not; and then once more, while the specs that guard nothing go."""
    world, desired = build(found)
    done: frozenset[str] = frozenset()
    for each in (first, second):
        doom = DoomOfMany(each)
        killed(world, desired, doom)
        check_told(world.plan(desired), doom, done)
        done = frozenset(doom.done)
    again(world, desired)
    check_end(world, desired, found)

    left = {name: spec for name, spec in desired.connectors.items() if spec.prevent_delete}
    doom = DoomOfMany(last)
    killed(world, replace(desired, connectors=left), doom)
    check_told(world.plan(replace(desired, connectors=left)), doom)
    again(world, replace(desired, connectors=left))
    there = world.observe(desired).connectors
    assert set(there) & set(desired.connectors) == set(left)
