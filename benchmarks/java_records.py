"""Java connectors on Apache's worker and on ours: rates, and CPU time for a record.

A JVM compiles classes while it moves its first records. Each worker has an idle connector, so the
JVM that our tasks share lasts from one work to the next, as Apache's worker does. Goals are for
records after as many others, and the ratios of the whole run, with the start, stand beside them.

Three workers take turns with each work: Apache's with the options of its start script, ours with
the same options for the JVMs of tasks, and ours with its defaults. Ratios are medians of the
rounds' ratios.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks import worker
from benchmarks.inputs import Inputs
from benchmarks.java_transfers import WORKS, JavaWork, Site, keep_a_task, make_plugin_path
from benchmarks.transfers import Measured, Whole
from benchmarks.worker import APACHE_OPTIONS, Worker
from support.postgres import postgres

# label of the worker, and the worker's further properties
_WORKERS: Final[Mapping[str, Mapping[str, str]]] = {
    "apache": {},
    "ours-same": {"java.jvm.options": " ".join(APACHE_OPTIONS)},
    "ours": {},
}

Figures = dict[str, list[Measured]]


def java_records(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Returns the section of the page, and whether its goals are reached."""
    names = {work.name for work in WORKS}.intersection(options.parts)
    works = [work for work in WORKS if not names or work.name in names]
    figures: dict[str, Figures] = {work.name: defaultdict(list) for work in works}
    problems: dict[str, str] = {}
    plugin_path = make_plugin_path(folder / "java-plugins")
    with ExitStack() as stack:
        site = Site(
            folder, Inputs(folder, bootstrap), stack.enter_context(postgres()), options.scale
        )
        workers = {}
        for label, further in _WORKERS.items():
            settings = {"plugin.path": str(plugin_path), "java.file.connectors": "true", **further}
            kind = "apache" if label == "apache" else "ours"
            place = folder / f"java-{label}"
            workers[label] = worker.start(
                kind, place, bootstrap, f"java-{label}", settings=settings
            )
            stack.callback(workers[label].close)
            keep_a_task(workers[label], folder / f"idle-{label}.txt")
        for number in range(options.rounds):
            for work in works:
                if work.name not in problems:
                    _round(work, number, workers, site, figures[work.name], problems)
    return _section(works, figures, problems, options.rounds), not problems and all(
        _reached(work, figures[work.name]) for work in works
    )


def _round(
    work: JavaWork,
    number: int,
    workers: Mapping[str, Worker],
    site: Site,
    figures: Figures,
    problems: dict[str, str],
) -> None:
    """Measures each worker once; another one is first in each round."""
    labels = [*workers]
    turn = number % len(labels)
    measured = {}
    try:
        for label in labels[turn:] + labels[:turn]:
            connector = f"{work.name}-{label}-{number}".replace("-", "_")
            measured[label] = work.run(workers[label], site, connector)
    except Exception as error:  # the other works are still measured
        problems[work.name] = str(error)
        print(f"round {number + 1}  {work.name}: {error}", flush=True)
        return
    for label, once in measured.items():
        figures[label].append(once)
    rates = "  ".join(f"{label} {measured[label].rate:9,.0f}" for label in labels)
    cpus = "  ".join(f"{measured[label].cpu_s:6.2f}" for label in labels)
    whole = "  ".join(f"{each.rate:9,.0f} {each.cpu_s:6.2f}" for each in _wholes(measured, labels))
    print(
        f"round {number + 1}  {work.name:14} {rates} records/s  CPU s/M {cpus}  all {whole}",
        flush=True,
    )


def _wholes(measured: Mapping[str, Measured], labels: Sequence[str]) -> list[Whole]:
    return [whole for label in labels if (whole := measured[label].whole)]


def _ratio(figures: Figures, label: str, *, cpu: bool = False) -> float:
    pairs = zip(figures[label], figures["apache"], strict=True)
    if cpu:
        return statistics.median(ours.cpu_s / apache.cpu_s for ours, apache in pairs)
    return statistics.median(ours.rate / apache.rate for ours, apache in pairs)


def _whole_ratio(figures: Figures, label: str) -> tuple[float, float]:
    """Returns the ratios of rate and CPU of all records, with the start of the task."""
    pairs = [
        (ours.whole, apache.whole)
        for ours, apache in zip(figures[label], figures["apache"], strict=True)
        if ours.whole and apache.whole
    ]
    return (
        statistics.median(ours.rate / apache.rate for ours, apache in pairs),
        statistics.median(ours.cpu_s / apache.cpu_s for ours, apache in pairs),
    )


def _reached(work: JavaWork, figures: Figures) -> bool:
    cpu = work.cpu is None or _ratio(figures, "ours-same", cpu=True) <= work.cpu
    return (
        cpu
        and _ratio(figures, "ours-same") >= work.same
        and _ratio(figures, "ours") >= work.defaults
    )


def _section(
    works: Sequence[JavaWork],
    figures: Mapping[str, Figures],
    problems: Mapping[str, str],
    rounds: int,
) -> str:
    lines = [
        "## Java connectors\n",
        f"The same plugins on Apache's worker and on ours, one task, exactly once, {rounds} rounds "
        "in turns. Apache's worker has the options of its start script; ours has the same ones for "
        "the JVMs of tasks, and then its defaults. Rates are medians, ratios are medians of the "
        "rounds' ratios. CPU is that of all processes of a worker for a million records, as a "
        "multiple of Apache's. Each worker has an idle connector besides, so the JVM that our "
        "tasks share lasts from one work to the next, as Apache's worker does. Records that have "
        "as many before them are measured; the last two columns are rate and CPU of all records, "
        "with the start of the task.\n",
        "| work | Apache, records/s | same options | ratio | goal | our defaults | ratio | goal "
        "| CPU, same options | CPU, defaults | all, same options | all, defaults |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for work in works:
        if work.name in problems:
            lines.append(f"| {work.text} (`{work.name}`) | not measured {'| ' * 10}|")
            continue
        measured = figures[work.name]
        rates = {label: statistics.median(m.rate for m in measured[label]) for label in _WORKERS}
        whole = [_whole_ratio(measured, label) for label in ("ours-same", "ours")]
        goal = "" if work.cpu is None else f" (goal ≤ {work.cpu})"
        lines.append(
            f"| {work.text} (`{work.name}`) | {rates['apache']:,.0f} "
            f"| {rates['ours-same']:,.0f} | {_ratio(measured, 'ours-same'):.2f} | ≥ {work.same} "
            f"| {rates['ours']:,.0f} | {_ratio(measured, 'ours'):.2f} | ≥ {work.defaults} "
            f"| {_ratio(measured, 'ours-same', cpu=True):.2f}{goal} "
            f"| {_ratio(measured, 'ours', cpu=True):.2f} "
            f"| {whole[0][0]:.2f}; {whole[0][1]:.2f} | {whole[1][0]:.2f}; {whole[1][1]:.2f} |"
        )
    return "\n".join(lines)
