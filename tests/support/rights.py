"""The least rights as docs/security.md lists them: its table, and its lines for kafka-acls.sh."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AclBinding

from support.guarded_broker import binding

_PAGE = Path(__file__).parents[2] / "docs" / "security.md"
_ROW = re.compile(
    r"^\| (planner|applier|leader|first apply) \| (topic|group|transactional id) "
    r"\| `([^`]+)` \| (\w+) \|",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Right:
    """A row. Of a name that ends with `*` all names are meant that begin so."""

    login: str
    resource: str
    name: str
    operation: str

    def __str__(self) -> str:
        return f"{self.login}: {self.operation} on {self.resource} {self.name}"

    def at(self, group_id: str, topic: str) -> Right:
        """In one Connect cluster whose sinks read one topic."""
        name = self.name.replace("<group.id>", group_id).replace("<topics of sinks>", topic)
        return Right(self.login, self.resource, name, self.operation)

    def of(self, user: str) -> AclBinding:
        """As Kafka has it."""
        return binding(
            user,
            self.resource.upper().replace(" ", "_"),
            self.name.removesuffix("*"),
            self.operation.upper(),
            prefixed=self.name.endswith("*"),
        )


def listed() -> Sequence[Right]:
    """The table's rows, in order."""
    return [Right(*found) for found in _ROW.findall(_PAGE.read_text())]


def commanded() -> Iterator[Right]:
    """What the lines for kafka-acls.sh allow."""
    script = _PAGE.read_text().partition("```sh\nacls()")[2].partition("```")[0]
    for line in script.replace("\\\n", " ").splitlines():
        if not line.startswith("acls "):
            continue
        options: dict[str, list[str]] = {}
        words = shlex.split(line)[1:]
        for option, value in zip(words[::2], words[1::2], strict=True):
            options.setdefault(option, []).append(value)
        (user,) = options.pop("--allow-principal")
        operations = options.pop("--operation")
        end = "*" if options.pop("--resource-pattern-type", []) == ["prefixed"] else ""
        for option, names in options.items():
            resource = option.removeprefix("--").replace("-", " ")
            for name in names:
                for operation in operations:
                    login = "first apply" if operation == "Create" else user.removeprefix("User:")
                    yield Right(login, resource, name + end, operation)
