"""Names the Java class of a value, where its schema tells more than the value does."""

from __future__ import annotations

from typing import Any, Final

from connect_runtime.api import Schema, Type
from connect_runtime.api.java_types import java_class
from connect_runtime.api.schema import DECIMAL_NAME

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32}


def class_of(value: Any, schema: Schema | None) -> str:
    """Returns the name of the Java class of a value of `schema`."""
    if schema is not None and value is not None and schema.name != DECIMAL_NAME:
        if schema.type is Type.FLOAT32:
            return "java.lang.Float"
        return java_class(value, bits=_BITS.get(schema.type, 64))
    return java_class(value)
