"""Prometheus' text format, version 0.0.4: families of samples.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Families:
    """Collects samples by metric name, in the order of their first sample. Of samples with the same
    labels, such as those of clients with the same `client.id`, only the first is on the page, as of
    MBeans with the same name: Prometheus reports duplicates as an error of the page."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[str, Sequence[str]]] = {}
        self._summaries: set[str] = set()

    def add(self, name: str, value: float, labels: str = "") -> None:
        """`labels` is what `labels_text` returns."""
        self._samples.setdefault(name, {}).setdefault(labels, (f"{name}{labels} {value}",))

    def add_summary(self, name: str, count: int, total: float, labels: str = "") -> None:
        """A summary without quantiles: how many there were, and their sum."""
        self._summaries.add(name)
        found = (f"{name}_count{labels} {count}", f"{name}_sum{labels} {total}")
        self._samples.setdefault(name, {}).setdefault(labels, found)

    def text(self, help_of: Mapping[str, str]) -> str:
        """Returns the page. Names that end in `_total` are counters, others gauges."""
        lines: list[str] = []
        for name, samples in self._samples.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            kind = "summary" if name in self._summaries else kind
            lines += [
                f"# HELP {name} {help_of.get(name, name.replace('_', ' '))}",
                f"# TYPE {name} {kind}",
                *chain.from_iterable(samples.values()),
            ]
        return "".join(f"{line}\n" for line in lines)


def labels_text(labels: Iterable[tuple[str, object]]) -> str:
    """Returns labels as the text format writes them."""
    inner = ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{inner}}}"
