"""A Kafka with an authorizer: whoever logs in may do what ACLs allow, others may do all.

Listeners for a password in the clear, for a password over TLS, and for a client's certificate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from connect_runtime.kafka import embedded
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.embedded import EmbeddedBroker
from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.certificates import Authority
from support.three_brokers import REPLICAS, three_brokers

PASSWORD = "of-a-test"
USERS = ("planner", "applier", "leader", "reader", "producer", "consumer", "admin", "nobody")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SEALED = """\
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}
listener.name.sealed.sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.sealed.scram-sha-256.sasl.jaas.config={scram};
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
listener.name.mutual.ssl.client.auth=required
"""
_users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
# For a listener with this name
GUARDED = f"""\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
listener.name.guarded.sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config={_PLAIN} {_users};
"""
_PROTOCOLS = {"GUARDED": "SASL_PLAINTEXT", "SEALED": "SASL_SSL", "MUTUAL": "SSL"}


@dataclass(frozen=True, slots=True)
class Logins:
    """Users of a Kafka with an authorizer, by name and password at the listener GUARDED. `open` are
    client properties of somebody who may do everything, `addresses` those of the listeners."""

    open: dict[str, str]
    addresses: dict[str, str]

    def client(self, user: str, password: str = PASSWORD) -> dict[str, str]:
        """Client properties of a user, who may do nothing yet."""
        return {
            "bootstrap.servers": self.addresses["GUARDED"],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_PLAIN} username="{user}" password="{password}";',
        }

    def allow(self, user: str, resource: str, prefix: str, *operations: str) -> None:
        """Lets a user do this to all topics or groups whose names begin so."""
        self.set_rights(
            [binding(user, resource, prefix, each, prefixed=True) for each in operations]
        )

    def set_rights(self, bindings: Iterable[AclBinding]) -> None:
        """Adds these rights."""
        # held in a variable: a client that is collected never answers
        client = admin(self.open)
        for answer in client.create_acls(list(bindings)).values():
            answer.result(timeout=15)

    def take_rights(self, bindings: Iterable[AclBinding]) -> None:
        """Takes these rights away."""
        client = admin(self.open)
        for answer in client.delete_acls([_filter(each) for each in bindings]).values():
            answer.result(timeout=15)


@dataclass(frozen=True, slots=True)
class GuardedBroker(Logins):
    """They may log in over TLS, too."""

    authority: Authority

    def sealed(self, user: str, password: str = PASSWORD) -> dict[str, str]:
        """The same over TLS, by SCRAM; nothing says yet whose certificates are trusted."""
        return {
            "bootstrap.servers": self.addresses["SEALED"],
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{_SCRAM} username="{user}" password="{password}";',
        }

    def mutual(self) -> dict[str, str]:
        """Over TLS, with no login yet."""
        return {
            "bootstrap.servers": self.addresses["MUTUAL"],
            "security.protocol": "SSL",
        }

    def let_in(self, user: str) -> None:
        """Gives a user a password for SCRAM."""
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        given = UserScramCredentialUpsertion(user, scram, PASSWORD.encode())
        client = admin(self.open)
        client.alter_user_scram_credentials([given])[user].result(timeout=15)


def binding(
    user: str, resource: str, name: str, operation: str, *, prefixed: bool = False
) -> AclBinding:
    """A user's right to one operation on what is called, or begins, so."""
    return AclBinding(
        ResourceType[resource],
        name,
        ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _filter(right: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        right.restype,
        right.name,
        right.resource_pattern_type,
        right.principal,
        right.host,
        right.operation,
        right.permission_type,
    )


@contextmanager
def guarded_broker(folder: Path) -> Iterator[GuardedBroker]:
    """The broker, for as long as the context lasts."""
    authority, ports = Authority.make(folder / "certificates"), _ports()
    properties = _with_logins(embedded._PROPERTIES, authority, ports)
    with patch.object(embedded, "_PROPERTIES", properties):
        broker = EmbeddedBroker.start(folder)
    try:
        yield GuardedBroker(
            {"bootstrap.servers": broker.bootstrap_servers}, _addresses([ports]), authority
        )
    finally:
        broker.stop()


@contextmanager
def three_guarded_brokers(folder: Path) -> Iterator[GuardedBroker]:
    """Three of them, with the same users, for as long as the context lasts."""
    authority = Authority.make(folder / "certificates")
    ports = [_ports() for _ in range(REPLICAS)]

    def secured(number: int, properties: str) -> str:
        return _with_logins(properties, authority, ports[number])

    with three_brokers(folder, secured) as brokers:
        yield GuardedBroker({"bootstrap.servers": brokers.kafka}, _addresses(ports), authority)


def _ports() -> dict[str, int]:
    return {name: free_port() for name in _PROTOCOLS}


def _addresses(ports: Iterable[Mapping[str, int]]) -> dict[str, str]:
    return {name: ",".join(f"{LOOPBACK}:{broker[name]}" for broker in ports) for name in _PROTOCOLS}


def _with_logins(properties: str, authority: Authority, ports: Mapping[str, int]) -> str:
    """Returns a broker's properties with listeners for those who log in."""
    own = authority.sign("broker")
    keystore = authority.folder / "broker-store.pem"
    keystore.write_text(own.key.read_text() + own.certificate.read_text())
    more = "".join(f",{name}://{LOOPBACK}:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in _PROTOCOLS.items())
    return (
        re.sub("^((advertised[.])?listeners=.*)$", rf"\g<1>{more}", properties, flags=re.MULTILINE)
        + GUARDED
        + _SEALED.format(
            protocols=protocols,
            scram=_SCRAM,
            keystore=keystore,
            authority=authority.own.certificate,
        )
    )
