"""Makes each defect of mutants.yaml in a copy of the product, and expects the tests to notice it.

`python -m support.mutants [TEXT]`: all of them, or those whose behaviour contains the text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = ("specs", "runtime", "reconciler")
NOTICED = "noticed"
_LIMIT_S = 300


def _mutate(copy: Path, code: str, mutant: str) -> Path | None:
    """Replaces the code in the one file that has it once; returns None if there is no such file."""
    sources = {path: path.read_text() for path in copy.rglob("*.py")}
    places = [path for path, source in sources.items() for _ in range(source.count(code))]
    if len(places) != 1:
        return None
    places[0].write_text(sources[places[0]].replace(code, mutant))
    return places[0]


def _outcome(copy: Path, tests: list[str]) -> str:
    """Returns what became of the defect: the tests run with the copy in place of the product."""
    path = os.pathsep.join(str(copy / package) for package in PACKAGES)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    quick = ["-m", "not long and not chaos and not oracle and not spark"]
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            [*command, *quick, *tests],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "TIMED OUT"
    return {0: "MISSED", 1: NOTICED}.get(ended.returncode, "NO TESTS")


def main(text: str) -> int:
    """Prints a line for each defect; returns the number of those that no test noticed."""
    missed = 0
    for defect in yaml.safe_load((ROOT / "tests/mutants.yaml").read_text()):
        if text not in defect["behaviour"]:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for package in PACKAGES:
                ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / package, Path(folder, package), ignore=ignore)
            place = _mutate(Path(folder), defect["code"], defect["mutant"])
            if place is None:
                outcome = "NO SUCH CODE"
            else:
                outcome = _outcome(Path(folder), defect["tests"].split())
        missed += outcome != NOTICED
        seconds = time.monotonic() - started
        print(f"{outcome:12} {seconds:5.0f} s  {defect['behaviour']}", flush=True)  # noqa: T201
    return missed


if __name__ == "__main__":
    sys.exit(min(1, main(" ".join(sys.argv[1:]))))
