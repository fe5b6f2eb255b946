"""Does the cluster take these configs? Its own validation answers, several at once, for a while.

That it does not answer is no failure: a plan is then made without, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from connect_reconciler.cluster.plugins import KeyProblem, RestPlugins, Validation
from connect_reconciler.plan.checks.config import CLASS_KEY
from connect_runtime.herder.errors import RequestError
from connect_runtime.plugins import PLUGIN_MODULES, UNLISTED
from connect_specs.diagnostics import ConnectError, Diagnostic, Unreachable

_AT_ONCE = 8
_ALL_S = 30.0
_NAMED_MOST = 5
_NO_CLASS = "Failed to find any class that implements Connector"


@dataclass(frozen=True, slots=True)
class Answers:
    """By connector, what the cluster said; and by connector, why it said nothing. `slots`: how many
    tasks it can run at once, where that is known."""

    validations: Mapping[str, Validation] = field(default_factory=dict)
    silences: Mapping[str, str] = field(default_factory=dict)
    slots: int | None = None

    def warnings(self) -> tuple[Diagnostic, ...]:
        """One for each reason."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.silences.items():
            by_reason.setdefault(reason, []).append(name)
        return tuple(_warning(names, reason) for reason, names in sorted(by_reason.items()))


def ask_cluster(
    plugins: RestPlugins,
    configs: Mapping[str, Mapping[str, str]],
    clock: Callable[[], float] = time.monotonic,
) -> Answers:
    """What the cluster says of each config, by connector."""
    deadline = clock() + _ALL_S
    unreachable: list[str] = []

    def ask(config: Mapping[str, str]) -> Validation | str:
        if unreachable:
            return unreachable[0]
        if clock() > deadline:
            return f"its validation did not end within {_ALL_S:.0f} s"
        try:
            return plugins.validate(config)
        except RequestError as error:
            return _refused(error, config)
        except ConnectError as error:
            reason = _reason(error)
            if isinstance(error, Unreachable):
                unreachable.append(reason)
            return reason
        except (KeyError, TypeError, ValueError):
            return "its answer is not one of Connect's"

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="validate") as pool:
        found = dict(zip(configs, pool.map(ask, configs.values()), strict=True))
    return Answers(
        {name: each for name, each in found.items() if isinstance(each, Validation)},
        {name: each for name, each in found.items() if isinstance(each, str)},
    )


def _refused(error: RequestError, config: Mapping[str, str]) -> Validation | str:
    if _NO_CLASS in error.message:
        what = f"the cluster has no connector class {config[CLASS_KEY]}"
        return Validation((KeyProblem(CLASS_KEY, what),))
    if UNLISTED in error.message:
        what = f"the cluster's workers do not list the module of {config[CLASS_KEY]}"
        return Validation(
            (KeyProblem(CLASS_KEY, f"{what} in {PLUGIN_MODULES}; they read it when they start"),)
        )
    # Its text may hold the whole config
    return f"its validation ended with status {error.status}"


def _reason(error: ConnectError) -> str:
    first = error.diagnostics[0]
    return f"{first.what}: {first.why}" if first.why else first.what


def _warning(names: list[str], reason: str) -> Diagnostic:
    shown = ", ".join(names[:_NAMED_MOST])
    more = f" and {len(names) - _NAMED_MOST} more" if len(names) > _NAMED_MOST else ""
    what = f"not validated by the cluster: {shown}{more}"
    return Diagnostic("config.not-validated", what, why=reason)
