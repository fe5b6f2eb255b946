"""The names that connector authors import are a promise: changing them changes this list."""

import subprocess
import sys
from types import ModuleType

from connect_runtime import api

NAMES = {
    "NO_DEFAULT", "ConfigDef", "ConfigKey", "ConfigType", "ConfigValue", "Importance", "Password",
    "Recommender", "Width", "Connector", "ConnectorContext", "ExactlyOnceSupport",
    "SinkConnector", "SourceConnector", "SourceConnectorContext", "TransactionBoundaries",
    "Column", "ConfigData", "ConfigProvider", "Converter", "Read", "Write", "ConfigError",
    "ConnectorError", "DataError", "ErrantRecordReporter",
    "RetriableError", "Header", "HeaderConverter", "Headers", "RawHeaders", "ConnectRecord",
    "Predicate", "Transformation", "SinkBatch", "SinkRecord", "SourceBatch", "SourceOffset",
    "SourcePartition", "SourceRecord", "TopicPartition", "BOOLEAN", "BYTES", "DATE", "FLOAT32",
    "FLOAT64", "INT8", "INT16", "INT32", "INT64", "OPTIONAL_BOOLEAN", "OPTIONAL_BYTES",
    "OPTIONAL_FLOAT32", "OPTIONAL_FLOAT64", "OPTIONAL_INT8", "OPTIONAL_INT16", "OPTIONAL_INT32",
    "OPTIONAL_INT64", "OPTIONAL_STRING", "STRING", "TIME", "TIMESTAMP", "Field", "Schema", "Struct",
    "Type", "decimal", "OffsetStorageReader", "SinkTask", "SinkTaskContext", "SourceTask",
    "SourceTaskContext", "TransactionContext", "AllOf", "Described", "NonEmptyList",
    "NonEmptyString", "NonEmptyStringWithoutControlChars", "NonNull", "OneOf", "Range",
    "ValidList", "ValidRegex", "Validator", "at_least", "between", "SchemaBuilder",
    "SchemaBuilderError", "SchemaProjectorError", "group_partitions", "project_value",
    "validate_value",
}  # fmt: skip


def test_exported_names() -> None:
    exported = {name for name, value in vars(api).items() if not isinstance(value, ModuleType)}
    assert {name for name in exported if not name.startswith("_")} == NAMES


def test_needs_neither_kafka_nor_spark() -> None:
    code = (
        "import sys, connect_runtime.api;"
        "sys.exit(any(m in sys.modules for m in ('confluent_kafka', 'pyspark', 'orjson')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
