"""The built-in plugins: Apache's class names, the places of our classes, and their versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime import KAFKA_VERSION

_JAVA: Final = "org.apache.kafka.connect"
_SINK: Final = "connect_runtime.connectors.file_sink"
_SOURCE: Final = "connect_runtime.connectors.file_source"
_DATA: Final = "connect_runtime.data"
_OWN_VERSION: Final = "0.1.0"

CONNECTORS: Final[Mapping[str, str]] = {
    f"{_JAVA}.file.FileStreamSinkConnector": f"{_SINK}:FileStreamSinkConnector",
    f"{_JAVA}.file.FileStreamSourceConnector": f"{_SOURCE}:FileStreamSourceConnector",
}
TASKS: Final[Mapping[str, str]] = {
    f"{_JAVA}.file.FileStreamSinkTask": f"{_SINK}:FileStreamSinkTask",
    f"{_JAVA}.file.FileStreamSourceTask": f"{_SOURCE}:FileStreamSourceTask",
}
CONVERTERS: Final[Mapping[str, str]] = {
    **{
        f"{_JAVA}.converters.{name}Converter": f"{_DATA}.primitive_converters:{name}Converter"
        for name in ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Short")
    },
    f"{_JAVA}.json.JsonConverter": f"{_DATA}.json_converter:JsonConverter",
    f"{_JAVA}.storage.StringConverter": f"{_DATA}.primitive_converters:StringConverter",
}
HEADER_CONVERTERS: Final[Mapping[str, str]] = {
    **CONVERTERS,
    f"{_JAVA}.storage.SimpleHeaderConverter": (
        f"{_DATA}.simple_header_converter:SimpleHeaderConverter"
    ),
}

_OURS: Final = "connect_runtime.transforms"
_OF_KEY_OR_VALUE: Final = (
    ("Cast", "type_conversion"),
    ("ExtractField", "record_shape"),
    ("Flatten", "record_shape"),
    ("HeaderFrom", "topics_and_headers"),
    ("HoistField", "record_shape"),
    ("InsertField", "field_transformations"),
    ("MaskField", "field_transformations"),
    ("ReplaceField", "field_transformations"),
    ("SetSchemaMetadata", "record_shape"),
    ("TimestampConverter", "type_conversion"),
)
_OF_RECORDS: Final = (
    ("DropHeaders", "topics_and_headers"),
    ("Filter", "chain"),
    ("InsertHeader", "topics_and_headers"),
    ("RegexRouter", "topics_and_headers"),
    ("TimestampRouter", "topics_and_headers"),
    ("ValueToKey", "record_shape"),
)
TRANSFORMATIONS: Final[Mapping[str, str]] = {
    **{
        f"{_JAVA}.transforms.{name}${half}": f"{_OURS}.{module}:{name}{half}"
        for name, module in _OF_KEY_OR_VALUE
        for half in ("Key", "Value")
    },
    **{f"{_JAVA}.transforms.{name}": f"{_OURS}.{module}:{name}" for name, module in _OF_RECORDS},
    "io.debezium.transforms.ExtractNewRecordState": (
        f"{_OURS}.extract_new_record_state:ExtractNewRecordState"
    ),
}
PREDICATES: Final[Mapping[str, str]] = {
    f"{_JAVA}.transforms.predicates.{name}": f"{_OURS}.chain:{name}"
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
}


def version_of(java_class: str) -> str:
    """Returns the version that a built-in shows: Kafka's, if it stands for a class of Kafka's, so
    that configs that name that version are valid; else the distribution's own."""
    return KAFKA_VERSION if java_class.startswith("org.apache.kafka.") else _OWN_VERSION
