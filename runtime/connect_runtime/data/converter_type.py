"""Defines the option that all of Connect's own converters share; only the runtime sets it."""

from __future__ import annotations

from connect_runtime.api import ConfigDef, ConfigType, Importance, OneOf


def with_converter_type(options: ConfigDef) -> ConfigDef:
    """Returns `converter.type`, then `options`."""
    return (
        ConfigDef()
        .define(
            "converter.type",
            ConfigType.STRING,
            validator=OneOf.strings("key", "value", "header"),
            importance=Importance.LOW,
            doc="How this converter will be used.",
        )
        .embed(options)
    )
