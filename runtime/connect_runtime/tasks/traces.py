"""What errors of a task say, as users may read it: without the secrets of the task's configs.

Secrets are what config providers gave, the values of keys that the connector's definition calls
passwords or whose names say so, and what such values hold inside, like the password in
`sasl.jaas.config`. What other code derives from a secret gets past this.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from connect_runtime import plugins
from connect_runtime.api import ConfigType
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.traces import trace_text
from connect_specs.redaction import Redactor, secrets_in


def trace_of(error: BaseException, launch: TaskLaunch) -> str:
    """The traceback's text without the secrets of the task's, connector's and worker's configs."""
    return trace_text(error, _redactor(launch))


class ErrorTexts:
    """The texts of errors for the log of one task. Costs nothing before the first error."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._launch = launch

    def __call__(self, error: BaseException) -> str:
        """What the error says, without secrets."""
        return self._redactor.redact(str(error))

    @cached_property
    def _redactor(self) -> Redactor:
        return _redactor(self._launch)


def _redactor(launch: TaskLaunch) -> Redactor:
    configs = (launch.config, launch.connector_config, launch.worker)
    passwords = _password_keys(launch.connector_config)
    secrets = (secret for config in configs for secret in secrets_in(config, passwords))
    return Redactor((*launch.given, *secrets))


def _password_keys(connector_config: Mapping[str, str]) -> frozenset[str]:
    """The keys that the connector's own definition calls passwords; none if it cannot be had."""
    try:
        definition = plugins.connector(connector_config["connector.class"]).cls().config()
    except Exception:  # whatever the plugin raises: the text must be told all the same
        return frozenset()
    return frozenset(
        name for name, key in definition.keys.items() if key.type is ConfigType.PASSWORD
    )
