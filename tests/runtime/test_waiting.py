"""Waiting until a condition holds, and retrying while errors are temporary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from connect_runtime.waiting import retry_while, wait_until


def _clock(*, step_s: float = 1.0) -> Callable[[], float]:
    times = count(step=step_s)
    return lambda: next(times)


def test_the_first_true_answer_is_returned_without_a_pause_after_it() -> None:
    answers, pauses = iter([0, 0, 7, 8]), list[float]()
    found = wait_until(lambda: next(answers), 60, every_s=0.5, sleep=pauses.append)
    assert (found, pauses) == (7, [0.5, 0.5])


def test_a_condition_is_asked_at_least_once_and_again_after_the_last_pause() -> None:
    for timeout_s, asked in ((0.0, 1), (2.0, 2)):
        answers: Iterator[int] = iter(range(10))
        pauses = list[float]()
        found = wait_until(
            lambda answers=answers: next(answers) < 0,  # type: ignore[misc]
            timeout_s,
            every_s=0.1,
            clock=_clock(),
            sleep=pauses.append,
        )
        assert (found, next(answers), len(pauses)) == (False, asked, asked - 1)


def test_a_stop_ends_the_wait() -> None:
    assert not wait_until(lambda: False, 60, every_s=0.1, stop=lambda: True)


def test_a_call_is_repeated_while_its_errors_are_temporary() -> None:
    errors = iter([KeyError("a"), KeyError("b")])

    def call() -> str:
        for error in errors:
            raise error
        return "done"

    found = retry_while(lambda error: isinstance(error, KeyError), call, 60, every_s=0)
    assert found == "done"


def test_other_errors_and_the_last_temporary_one_are_raised() -> None:
    def fail() -> None:
        raise KeyError("a")

    with pytest.raises(KeyError):
        retry_while(lambda error: isinstance(error, ValueError), fail, 60, every_s=0)
    with pytest.raises(KeyError):
        retry_while(lambda error: True, fail, 0, every_s=0)
