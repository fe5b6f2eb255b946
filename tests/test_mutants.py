"""The table of known defects follows the product: `make mutants` can make each of them."""

from __future__ import annotations

import yaml

from support.mutants import PACKAGES, ROOT


def test_code_of_each_mutant_stands_once_in_the_product() -> None:
    defects = yaml.safe_load((ROOT / "tests/mutants.yaml").read_text())
    sources = [path.read_text() for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    counts = {
        defect["behaviour"]: sum(source.count(defect["code"]) for source in sources)
        for defect in defects
    }
    assert {behaviour for behaviour, count in counts.items() if count != 1} == set()
    assert len(counts) == len(defects) >= 60


def test_tests_of_each_mutant_exist() -> None:
    for defect in yaml.safe_load((ROOT / "tests/mutants.yaml").read_text()):
        assert all((ROOT / path).exists() for path in defect["tests"].split()), defect["behaviour"]
