"""Checks that the converters of a worker are installed, with Connect's texts."""

from __future__ import annotations

from connect_runtime.plugins.registry import CONVERTER_KINDS
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.validation.plugin_choice import choose
from connect_specs.diagnostics import Diagnostic, Invalid


def check_worker_converters(worker: WorkerConfig) -> None:
    """Raises Invalid: connectors that name none of their own would all fail."""
    named = {
        "key.converter": worker.key_converter,
        "value.converter": worker.value_converter,
        "header.converter": worker.header_converter,
    }
    errors = {key: choose(kind, key, named[key]).error for key, kind in CONVERTER_KINDS.items()}
    problems = [Diagnostic("worker.invalid", error, key) for key, error in errors.items() if error]
    if problems:
        raise Invalid(*problems)
