"""Counts what makes the product's code hard to read, and fails above the limits.

Run by `make check`. The limits stand in vocabulary.toml beside this file and only fall:
`python .ci/vocabulary.py --lower` writes the counts of today where they are lower.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = Path(__file__).with_name("vocabulary.toml")
PACKAGES = ("reconciler", "runtime", "specs")
VAGUE_NAMES = frozenset(
    "each found wanted told known made given said asked seen here there now then left one other "
    "others what why where who whose again beside below above old new before after shown kept held "
    "named listed written read begun ended moved whole rest part parts some none all any both "
    "same".split()
)
QUESTION_CLAUSE = re.compile(r"(?:What|Who|Whoever|Whose|Where|Whether|How|Why|Which)\b")
SENTENCE_END = re.compile(r"(?<=[.:;])\s+")
# First words of docstrings that end with an s and are no verbs
NO_VERBS = frozenset({"As", "Always", "This", "Its", "Less", "Plus", "Unless", "Across", "Class"})
LONG_FILE = 500


def vague_names(tree: ast.Module) -> Iterator[bool]:
    """Returns for every bound name if it is vague."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id in VAGUE_NAMES


def prose(source: str, tree: ast.Module) -> Iterator[str]:
    """Returns the docstrings and comments of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def functions_without_verb(tree: ast.Module) -> int:
    """Returns the number of docstrings of functions that do not begin with a verb."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split(maxsplit=1)
            first = words[0].rstrip(",.:;") if words else ""
            count += bool(words) and (not first.endswith("s") or first in NO_VERBS)
    return count


def count() -> dict[str, float]:
    """Returns the counts by name; files and lines have no limit."""
    bindings: Counter[bool] = Counter()
    classes: Counter[str] = Counter()
    words = clauses = without_verb = lines = files = long_files = 0
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            source = path.read_text()
            tree = ast.parse(source)
            bindings.update(vague_names(tree))
            classes.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
            without_verb += functions_without_verb(tree)
            for text in prose(source, tree):
                words += len(text.split())
                clauses += sum(map(bool, map(QUESTION_CLAUSE.match, SENTENCE_END.split(text))))
            length = source.count("\n")
            files, lines = files + 1, lines + length
            long_files += length > LONG_FILE
    glossary = (ROOT / "docs/architecture.md").read_text().partition("## Layers")[0]
    return {
        "vague_names_percent": round(100 * bindings[True] / bindings.total(), 2),
        "question_clauses_per_1000_words": round(1000 * clauses / words, 2),
        "function_docstrings_without_verb": without_verb,
        "class_names_used_twice": sum(times > 1 for times in classes.values()),
        "files_over_500_lines": long_files,
        "files": files,
        "lines": lines,
        "glossary_words": len(re.findall(r"^\| (?!word|---)", glossary, re.MULTILINE)),
    }


def main(arguments: list[str]) -> int:
    """Prints the counts beside their limits; returns 1 if one is above its limit."""
    counts, limits = count(), tomllib.loads(LIMITS.read_text())
    if "--lower" in arguments:
        limits = {name: min(counts[name], limit) for name, limit in limits.items()}
        heading = LIMITS.read_text().partition("\n\n")[0]
        values = "\n".join(f"{name} = {limit}" for name, limit in limits.items())
        LIMITS.write_text(f"{heading}\n\n{values}\n")
    failed = False
    for name, value in counts.items():
        above = value > limits.get(name, value)
        failed |= above
        if above or arguments:
            print(f"{name}: {value}, limit {limits.get(name, 'none')}{' EXCEEDED' * above}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
