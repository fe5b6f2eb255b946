"""A wrong command line is told in our words, with what to write instead."""

import pytest

from support.command import Command

PROJECT = "project: p\ncluster: {group.id: g, kafka: {bootstrap.servers: 'localhost:1'}}\n"

SEE = "see `connect --help`"
WRONG = [
    ("nonsense", "connect has no verb 'nonsense'", SEE),
    ("plna", "connect has no verb 'plna'", "did you mean `connect plan`?"),
    ("destroy", "connect has no verb 'destroy'", SEE),
    ("offsets", "connect offsets needs one of list, alter, reset", "see `connect offsets --help`"),
    ("offsets lst x", "connect offsets has no verb 'lst'", "write one of list, alter, reset"),
    ("stop", "connect stop needs NAME", "`connect stop NAME`; see `connect stop --help`"),
    (
        "status a",
        "connect status does not take 'a'",
        "`connect status --target GLOB` limits it to connectors with matching names",
    ),
    ("stop a b", "connect stop does not take 'b'", "write `connect stop NAME`"),
    (
        "apply --auto-approve",
        "connect apply has no option --auto-approve",
        "see `connect apply --help`",
    ),
    (
        "apply -auto-approve",
        "connect apply has no option -auto-approve",
        "see `connect apply --help`",
    ),
    (
        "plan -target=x",
        "connect plan has no option -target",
        "write it with two dashes: --target",
    ),
    ("plan --ou x", "connect plan has no option --ou", "did you mean --out?"),
    ("plan --out", "--out needs a value", "see `connect plan --help`"),
    ("plan --json=3", "--json takes no value", "see `connect plan --help`"),
    ("-C no/such plan", "--project: no/such is not a folder", SEE),
    ("plan -C no/such", "--project: no/such is not a folder", "see `connect plan --help`"),
]
VALUES = [
    (
        "apply --parallelism x",
        "'x' is not a valid value for --parallelism",
        "it takes a whole number",
    ),
    ("apply --parallelism 0", "'0' is not a valid value for --parallelism", "it takes 1 or more"),
    (
        "export --format x",
        "'x' is not a valid value for --format",
        "it takes one of json, properties, strimzi",
    ),
    ("completion tcsh", "'tcsh' is not a valid value for SHELL", "it takes one of bash, zsh, fish"),
]


@pytest.mark.parametrize(("line", "what", "hint"), WRONG, ids=[line for line, _, _ in WRONG])
def test_what_is_wrong_and_what_to_write(connect: Command, line: str, what: str, hint: str) -> None:
    done = connect(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error[usage]: {what}\n  hint: {hint}\n"


@pytest.mark.parametrize(("line", "what", "why"), VALUES, ids=[line for line, _, _ in VALUES])
def test_a_value_that_does_not_fit(connect: Command, line: str, what: str, why: str) -> None:
    done = connect(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    see = f"see `connect {line.split()[0]} --help`"
    assert done.stderr == f"error[usage]: {what}\n  why: {why}\n  hint: {see}\n"


def test_the_folder_before_and_after_the_verb(connect: Command) -> None:
    connect.write("there/connect.yaml", PROJECT)
    connect.write("there/connectors/a.yaml", "name: a\nconfig: {connector.class: C}\n")
    connect.write("here/connect.yaml", "nonsense")
    for words in (
        ("-C", "there", "validate"),
        ("validate", "-C", "there"),
        ("validate", "--project", "there"),
        ("-C", "here", "validate", "-C", "there"),
    ):
        done = connect(*words)
        assert done.returncode == 0, done.stderr
        assert "a  connectors/a.yaml:1:7\n" in done.stdout
    assert connect("offsets", "list", "a", "-C", "nowhere").returncode == 2
    assert "hint: write it after the verb" in connect("--json", "plan").stderr


def test_version_and_short_help(connect: Command) -> None:
    shown = connect("--version")
    assert (shown.returncode, shown.stdout) == (0, connect("version").stdout)
    for words in ([], ["plan"], ["offsets"], ["offsets", "list"]):
        short, long = connect(*words, "-h"), connect(*words, "--help")
        assert (short.returncode, short.stdout) == (0, long.stdout)
    assert "130 interrupted" in connect("-h").stdout
    assert "Documentation: " in connect("-h").stdout
