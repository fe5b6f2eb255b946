"""Help pays for nothing that it does not use."""

import json
import subprocess
import sys

import pytest

from connect_reconciler.cli.commands import VERBS, load
from support.command import Command

HEAVY = ("pyspark", "confluent_kafka", "httpx", "rich", "starlette", "yaml", "jinja2")


def test_help_imports_nothing_heavy() -> None:
    """Of no verb, asked for in turn by one process."""
    script = (
        "import json, sys\n"
        "from connect_reconciler.cli.entry import run\n"
        f"for words in {[['--help'], *([verb, '--help'] for verb in VERBS)]!r}:\n"
        f"    told = [words, run(words), sorted(set(sys.modules) & set({HEAVY!r}))]\n"
        "    print(json.dumps(told), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(told) == len(VERBS) + 1
    assert [each for each in told if each[1:] != [0, []]] == []


def test_an_apply_without_policies_does_not_load_their_language() -> None:
    """It takes a fifth of a second."""
    script = (
        "import sys, connect_reconciler.workflow.apply, connect_reconciler.workflow.rollback\n"
        "sys.exit(any(each in sys.modules for each in ('cel', 'prompt_toolkit')))"
    )
    assert subprocess.run([sys.executable, "-P", "-c", script], check=False).returncode == 0


def test_help_lists_every_verb(connect: Command) -> None:
    shown = connect("--help").stdout
    assert all(f"  {verb} " in shown for verb in VERBS)
    assert connect().stdout == shown


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_be_loaded_and_says_what_it_does(verb: str) -> None:
    command = load(verb)
    assert command.help
    # Help itself puts brackets around what may be left out
    assert not any((each.metavar or "").startswith("[") for each in command.params)
