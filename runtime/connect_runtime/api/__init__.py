"""The API for connector authors. Plain Python: using or testing it needs neither Kafka nor Spark.

Start with `SourceConnector` and `SourceTask`, or `SinkConnector` and `SinkTask`. Name a connector
as `package.module:Class` in `connector.class`, or register it under the entry point group
`connect.connectors`.
"""

# isort: skip_file
# an import under its own name says that the name is exported

from connect_runtime.api.configdef import (
    NO_DEFAULT as NO_DEFAULT,
    ConfigData as ConfigData,
    ConfigDef as ConfigDef,
    ConfigKey as ConfigKey,
    ConfigProvider as ConfigProvider,
    ConfigType as ConfigType,
    ConfigValue as ConfigValue,
    Importance as Importance,
    Password as Password,
    Recommender as Recommender,
    Width as Width,
)
from connect_runtime.api.connectors import (
    Connector as Connector,
    ConnectorContext as ConnectorContext,
    ErrantRecordReporter as ErrantRecordReporter,
    ExactlyOnceSupport as ExactlyOnceSupport,
    OffsetStorageReader as OffsetStorageReader,
    SinkConnector as SinkConnector,
    SinkTask as SinkTask,
    SinkTaskContext as SinkTaskContext,
    SourceConnector as SourceConnector,
    SourceConnectorContext as SourceConnectorContext,
    SourceTask as SourceTask,
    SourceTaskContext as SourceTaskContext,
    TransactionBoundaries as TransactionBoundaries,
    TransactionContext as TransactionContext,
    group_partitions as group_partitions,
)
from connect_runtime.api.errors import (
    ConfigError as ConfigError,
    ConnectorError as ConnectorError,
    DataError as DataError,
    RetriableError as RetriableError,
)
from connect_runtime.api.record_plugins import (
    Column as Column,
    ConnectRecord as ConnectRecord,
    Converter as Converter,
    HeaderConverter as HeaderConverter,
    Predicate as Predicate,
    RawHeaders as RawHeaders,
    Read as Read,
    Transformation as Transformation,
    Write as Write,
)
from connect_runtime.api.records import (
    Header as Header,
    Headers as Headers,
    SinkBatch as SinkBatch,
    SinkRecord as SinkRecord,
    SourceBatch as SourceBatch,
    SourceOffset as SourceOffset,
    SourcePartition as SourcePartition,
    SourceRecord as SourceRecord,
    TopicPartition as TopicPartition,
)
from connect_runtime.api.schema import (
    BOOLEAN as BOOLEAN,
    BYTES as BYTES,
    DATE as DATE,
    FLOAT32 as FLOAT32,
    FLOAT64 as FLOAT64,
    INT8 as INT8,
    INT16 as INT16,
    INT32 as INT32,
    INT64 as INT64,
    OPTIONAL_BOOLEAN as OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES as OPTIONAL_BYTES,
    OPTIONAL_FLOAT32 as OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64 as OPTIONAL_FLOAT64,
    OPTIONAL_INT8 as OPTIONAL_INT8,
    OPTIONAL_INT16 as OPTIONAL_INT16,
    OPTIONAL_INT32 as OPTIONAL_INT32,
    OPTIONAL_INT64 as OPTIONAL_INT64,
    OPTIONAL_STRING as OPTIONAL_STRING,
    STRING as STRING,
    TIME as TIME,
    TIMESTAMP as TIMESTAMP,
    Field as Field,
    Schema as Schema,
    SchemaBuilder as SchemaBuilder,
    SchemaBuilderError as SchemaBuilderError,
    Struct as Struct,
    Type as Type,
    decimal as decimal,
    validate_value as validate_value,
)
from connect_runtime.api.schema_projector import (
    SchemaProjectorError as SchemaProjectorError,
    project_value as project_value,
)
from connect_runtime.api.validators import (
    AllOf as AllOf,
    Described as Described,
    NonEmptyList as NonEmptyList,
    NonEmptyString as NonEmptyString,
    NonEmptyStringWithoutControlChars as NonEmptyStringWithoutControlChars,
    NonNull as NonNull,
    OneOf as OneOf,
    Range as Range,
    Validator as Validator,
    ValidList as ValidList,
    ValidRegex as ValidRegex,
    at_least as at_least,
    between as between,
)
