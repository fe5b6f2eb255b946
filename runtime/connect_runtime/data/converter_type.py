"""The option that all of Connect's own converters have; the runtime sets it, users never do."""

from __future__ import annotations

from connect_runtime.api import ConfigDef, ConfigType, Importance, OneOf


def with_converter_type(options: ConfigDef) -> ConfigDef:
    """`converter.type`, then `options`."""
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
