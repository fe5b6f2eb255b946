"""A Kafka with an authorizer: whoever comes by SASL may do what ACLs allow, others may do all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from connect_runtime.kafka import embedded
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.kafka.ports import free_port

_PASSWORD = "of-a-test"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_GUARD = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config={login} {users};
"""


@dataclass(frozen=True, slots=True)
class GuardedBroker:
    """`open` are client properties of somebody who may do everything."""

    open: dict[str, str]
    port: int

    def client(self, user: str) -> dict[str, str]:
        """Client properties of a user, who may do nothing yet."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_LOGIN} username="{user}" password="{_PASSWORD}";',
        }

    def allow(self, user: str, resource: str, prefix: str, *operations: str) -> None:
        """Lets a user do this to all topics or groups whose names begin so."""
        bindings = [
            AclBinding(
                ResourceType[resource],
                prefix,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        # held in a variable: a client that is collected never answers
        client = admin(self.open)
        for answer in client.create_acls(bindings).values():
            answer.result()


@contextmanager
def guarded_broker(folder: Path, users: Iterable[str]) -> Iterator[GuardedBroker]:
    """The broker, for as long as the context lasts."""
    port = free_port()
    logins = " ".join(f'user_{user}="{_PASSWORD}"' for user in users)
    properties = embedded._PROPERTIES.replace(
        "listeners=PLAINTEXT://{host}:{port},",
        f"listeners=PLAINTEXT://{{host}}:{{port}},GUARDED://{{host}}:{port},",
        1,
    ).replace(
        "advertised.listeners=PLAINTEXT://{host}:{port}",
        f"advertised.listeners=PLAINTEXT://{{host}}:{{port}},GUARDED://{{host}}:{port}",
    ) + _GUARD.format(login=_LOGIN, users=logins)
    with patch.object(embedded, "_PROPERTIES", properties):
        broker = EmbeddedBroker.start(folder)
    try:
        yield GuardedBroker({"bootstrap.servers": broker.bootstrap_servers}, port)
    finally:
        broker.stop()
