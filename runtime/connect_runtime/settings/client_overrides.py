"""Applies the worker's policy on which client properties a connector may override.

`connector.client.config.override.policy` is All, None, Principal or Allowlist (KIP-458, KIP-1188),
or the name of Apache's class for one of them. A property that the policy forbids is an error of the
config, and its connector does not run. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from connect_runtime.api import ConfigError

Kind = Literal["source", "sink"]

POLICY_KEY: Final = "connector.client.config.override.policy"
ALLOWLIST_KEY: Final = "connector.client.config.override.allowlist"
PRODUCER: Final = "producer.override."
CONSUMER: Final = "consumer.override."
ADMIN: Final = "admin.override."
PREFIXES: Final = (PRODUCER, CONSUMER, ADMIN)

_PRINCIPAL: Final = "Principal"
_POLICIES: Final = ("All", "None", _PRINCIPAL, "Allowlist")
_OF_A_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_APACHE: Final = (
    "org.apache.kafka.connect.connector.policy.",
    "ConnectorClientConfigOverridePolicy",
)
POLICY_CLASSES: Final = tuple(f"{_APACHE[0]}{policy}{_APACHE[1]}" for policy in _POLICIES)
DEAD_LETTERS_KEY: Final = "errors.deadletterqueue.topic.name"


def policy_of(worker: Mapping[str, str]) -> str:
    """Returns the policy's short name. Raises ConfigError for an unknown one."""
    given, short = _policy(worker)
    if short not in _POLICIES:
        allowed = f"must be one of {', '.join(_POLICIES)}"
        raise ConfigError.invalid(POLICY_KEY, given, allowed)
    return short


def deprecated_policy(worker: Mapping[str, str]) -> str:
    """Returns a warning of a policy that Kafka 5.0 will not have; empty for others."""
    if _policy(worker)[1] != _PRINCIPAL:
        return ""
    listed = ",".join(sorted(_OF_A_PRINCIPAL))
    return (
        f"{POLICY_KEY}={_PRINCIPAL} is deprecated, and Kafka 5.0 will not have it: Allowlist with "
        f"{ALLOWLIST_KEY}={listed} does the same"
    )


def _policy(worker: Mapping[str, str]) -> tuple[str, str]:
    """Returns the policy as it is given, and its short name."""
    given = (worker.get(POLICY_KEY) or "All").strip()
    package, suffix = _APACHE
    return given, given.removeprefix(package).removesuffix(suffix)


def forbidden_overrides(
    config: Mapping[str, str | None], worker: Mapping[str, str], kind: Kind
) -> Iterator[tuple[str, str]]:
    """Yields each override that the policy forbids, with Connect's text. Raises ConfigError.

    A sink's producer only writes dead letters: without them its properties are not checked, as in
    Connect.
    """
    policy = policy_of(worker)
    if policy == "All":
        return
    allowed = _OF_A_PRINCIPAL if policy == _PRINCIPAL else frozenset[str]()
    if policy == "Allowlist":
        listed = (worker.get(ALLOWLIST_KEY) or "").split(",")
        allowed = frozenset(each.strip() for each in listed)
    unused = kind == "sink" and not (config.get(DEAD_LETTERS_KEY) or "").strip()
    for key in config:
        prefix = next((each for each in PREFIXES if key.startswith(each)), None)
        if prefix is None or (prefix == PRODUCER and unused):
            continue
        name = key.removeprefix(prefix)
        if name not in allowed:
            yield (
                key,
                f"The '{policy}' policy does not allow '{name}' to be overridden in the connector "
                "configuration.",
            )


def check_overrides(config: Mapping[str, str], worker: Mapping[str, str], kind: Kind) -> None:
    """Raises ConfigError with all forbidden overrides."""
    found = [text for _, text in forbidden_overrides(config, worker, kind)]
    if found:
        raise ConfigError(f"Client Config Overrides not allowed [{' '.join(found)}]")
