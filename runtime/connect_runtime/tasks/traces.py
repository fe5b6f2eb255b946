"""Renders errors of a task for users, with the secrets of the task's configs redacted.

Secrets are the values from config providers, the values of keys that the connector's definition or
their names mark as passwords, and what such values contain, like the password in
`sasl.jaas.config`. Values that other code derives from a secret are not redacted.
"""

from __future__ import annotations

from functools import cached_property

from connect_runtime.plugins.passwords import password_keys
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.traces import trace_text
from connect_specs.redaction import Redactor, secrets_in


def trace_of(error: BaseException, launch: TaskLaunch) -> str:
    """Returns the traceback's text with the secrets of the task's, connector's and worker's configs
    redacted."""
    return trace_text(error, _redactor(launch))


class ErrorTexts:
    """Texts of errors for the log of one task. Costs nothing before the first error."""

    def __init__(self, launch: TaskLaunch) -> None:
        self._launch = launch

    def __call__(self, error: BaseException) -> str:
        """Returns the error's text with secrets redacted."""
        return self._redactor.redact(str(error))

    def trace(self, error: BaseException) -> str:
        """Returns the error's traceback with secrets redacted."""
        return trace_text(error, self._redactor)

    @cached_property
    def _redactor(self) -> Redactor:
        return _redactor(self._launch)


def _redactor(launch: TaskLaunch) -> Redactor:
    configs = (launch.config, launch.connector_config, launch.worker)
    passwords = password_keys(launch.connector_config)
    secrets = (secret for config in configs for secret in secrets_in(config, passwords))
    return Redactor((*launch.given, *secrets))
