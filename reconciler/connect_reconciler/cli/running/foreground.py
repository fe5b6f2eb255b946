"""A runtime in this process, until Ctrl-C, SIGTERM or the end of its terminal (SIGHUP).

Those end it in order; a second one of them ends it at once. Shows a table on a terminal, else one
line for each change of state.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from connect_reconciler.cli.interruption import may_change
from connect_reconciler.cli.output import progress, result
from connect_reconciler.cli.rows import Row, changes, row_of
from connect_reconciler.cli.running.log_file import cut_when_large, log_to
from connect_reconciler.cli.running.process import LOG
from connect_reconciler.cli.signals import Told, at_once, told_to_stop
from connect_reconciler.observe.known_plugins import Installed
from connect_reconciler.observe.traces import without_secrets
from connect_runtime.herder.errors import RequestError
from connect_runtime.private_files import make_private_folder
from connect_runtime.server import Runtime

if TYPE_CHECKING:
    from connect_runtime.herder.verbs import Verbs
    from connect_runtime.worker_config import WorkerConfig

_LOOK_EVERY_S = 1.0


def run_until_told(
    config: WorkerConfig,
    warnings: Sequence[str],
    on_url: Callable[[str], None],
    sensitive: Callable[[str], Collection[str]],
    texts: tuple[str, ...] = (),
    *,
    as_json: bool = False,
) -> None:
    """Starts the runtime, calls `on_url` once REST listens, and stops it in order when told to.

    `sensitive`: by connector the keys that its spec calls so; `texts` are never shown either.
    Raises Failed if the runtime ends by itself.
    """
    may_change()
    make_private_folder(config.data_folder)
    on_terminal = sys.stdout.isatty() and not as_json
    log = config.data_folder / LOG
    # a table on a terminal is not to be written over
    log_to(log if on_terminal else None)
    for warning in warnings:
        progress(f"warning: {warning}")
    with told_to_stop() as told, cut_when_large(log):
        runtime = Runtime(config)
        with at_once():
            runtime.start()
        try:
            on_url(runtime.url)
            progress(f"REST is at {runtime.url}; Ctrl-C stops")
            if on_terminal:
                from connect_reconciler.cli.running.live_table import show_until

                show_until(
                    told,
                    lambda: look(runtime.verbs, sensitive, texts),
                    runtime.verbs,
                    config.client,
                )
            else:
                _tell_changes(told, lambda: look(runtime.verbs, sensitive, texts), as_json=as_json)
        finally:
            progress("stopping: tasks flush and commit, then Spark ends")
            runtime.stop()


def look(
    verbs: Verbs, sensitive: Callable[[str], Collection[str]], texts: tuple[str, ...] = ()
) -> dict[str, Row]:
    """The rows of all connectors. One that is deleted meanwhile is left out."""
    runtime = verbs.runtime()
    # While Spark starts there are no slots yet, and none that are short.
    waiting = runtime.waiting if runtime.slots else ()
    rows = {}
    for name in verbs.connectors():
        try:
            status, config = verbs.status(name), verbs.config(name)
            shown = without_secrets(status, (config,), Installed(), sensitive, texts)
            rows[name] = row_of(shown, waiting)
        except RequestError:
            continue
    return rows


def _tell_changes(told: Told, look: Callable[[], dict[str, Row]], *, as_json: bool) -> None:
    before: dict[str, Row] = {}
    while not told.wait(_LOOK_EVERY_S):
        after = look()
        for line in changes(before, after):
            result(json.dumps({"event": line}) if as_json else line)
        before = after
