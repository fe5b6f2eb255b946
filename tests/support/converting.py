"""Calls converters as most tests need it: for records of one topic, without headers."""

from collections.abc import Callable, Sequence
from typing import Any

from connect_runtime.api import Column, Converter, Schema


def writing(converter: Converter) -> Callable[[Sequence[Any], Schema | None], list[bytes | None]]:
    """The converter's writer, from values and their schema."""
    write = converter.writer()
    return lambda values, schema: write("topic", None, schema, values)


def reading(converter: Converter) -> Callable[[Sequence[bytes | None]], Column]:
    """The converter's reader, from bytes."""
    read = converter.reader()
    return lambda data: read("topic", None, data)
