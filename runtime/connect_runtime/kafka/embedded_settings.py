"""What an embedded broker and its clients are configured with, and its password."""

import secrets
from pathlib import Path

from connect_runtime.kafka.ports import LOOPBACK
from connect_runtime.private_files import write_private

_PASSWORD = "password"

# Few internal partitions and no wait for more group members make the start faster. A killed
# broker's successor is admitted only when the killed one's session has expired. Open transactions
# of killed writers are checked each second: until then they hide later records. The controller
# writes no records while nothing changes: two a second would be a third of an idle broker's work.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=true
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
metadata.max.idle.interval.ms=0
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

# Both listeners require a login; their names stay, so that all else does.
_AUTHENTICATION = """\
listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.plaintext.plain.sasl.jaas.config={login} user_{user}="{password}";
listener.name.controller.plain.sasl.jaas.config={login} user_{user}="{password}";
"""
_USER = "connect"
_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="{user}" password="{password}"'
)

LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
"""


def server_properties(port: int, controller_port: int, data: Path, password: str) -> str:
    """The broker's properties file; with a password, both listeners require it."""
    found = _PROPERTIES.format(host=LOOPBACK, port=port, controller_port=controller_port, data=data)
    if not password:
        return found
    login = _LOGIN.format(user=_USER, password=password)
    return found + _AUTHENTICATION.format(login=login, user=_USER, password=password)


def client_properties(port: int, password: str) -> dict[str, str]:
    """What clients need to connect, in Java's names."""
    properties = {"bootstrap.servers": f"{LOOPBACK}:{port}"}
    if password:
        properties |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_LOGIN.format(user=_USER, password=password)};",
        }
    return properties


def read_password(folder: Path) -> str:
    """The password that a file in the folder holds; empty if the broker requires none."""
    try:
        return (folder / _PASSWORD).read_text().strip()
    except FileNotFoundError:
        return ""


def ensure_password(folder: Path, *, wanted: bool) -> str:
    """The password for the next start: made if it is `wanted` and missing, else removed."""
    if not wanted:
        (folder / _PASSWORD).unlink(missing_ok=True)
    elif not read_password(folder):
        write_private(folder / _PASSWORD, f"{secrets.token_urlsafe(24)}\n")
    return read_password(folder)
