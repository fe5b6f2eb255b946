"""The connectors that a standalone worker starts with: all are valid, or none is created."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.verbs import NotLeader, RequestError
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.validation.validate import check
from connect_runtime.waiting import retry_while
from connect_specs.diagnostics import Diagnostic, Failed, Invalid
from connect_specs.worker_files import FirstConnector

# The herder leads at its first look
_READY_S: Final = 30.0
_RETRY_S: Final = 0.02


def check_connectors(connectors: Sequence[FirstConnector], config: WorkerConfig) -> None:
    """Raises Invalid with every config that the worker would refuse. Starts nothing."""
    problems = []
    providers = ConfigProviders(config.properties)
    try:
        for connector in connectors:
            try:
                check(connector.config, config, providers)
            except RequestError as error:
                text = f"the config of connector {connector.name!r} is not valid"
                problems.append(
                    Diagnostic("connector.invalid", text, connector.where, error.message)
                )
    finally:
        providers.close()
    if problems:
        raise Invalid(*problems)


def create_connectors(connectors: Sequence[FirstConnector], verbs: ConnectCluster) -> None:
    """Creates them in order. Raises Failed."""
    for connector in connectors:
        try:
            _when_ready(
                partial(verbs.create, connector.name, connector.config, connector.initial_state)
            )
        except RequestError as error:
            text = f"the connector {connector.name!r} cannot be created"
            raise Failed(
                Diagnostic("connector.not-created", text, connector.where, error.message)
            ) from error


def _when_ready(create: Callable[[], object]) -> None:
    retry_while(lambda error: isinstance(error, NotLeader), create, _READY_S, every_s=_RETRY_S)
