package connect.engine;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.Operation;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.runtime.errors.Stage;
import org.apache.kafka.connect.runtime.errors.ToleranceType;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * Runs converters and transformations of connectors over single records, as Connect's tasks do and
 * with their classes, but without a connector or Kafka. Nothing is tried again and every failure is
 * tolerated, so each record has an outcome.
 */
final class Chains {
    private static final String BASE64 = "base64:";

    private final Plugins plugins;
    private final ConnectMetrics metrics;
    private final JsonConverter json = new JsonConverter();
    private final Map<Integer, Chain<?, ?>> chains = new ConcurrentHashMap<>();
    private final AtomicInteger lastNumber = new AtomicInteger();

    Chains(Plugins plugins) {
        this.plugins = plugins;
        // Only for its defaults: no client is made of it
        StandaloneConfig worker = new StandaloneConfig(Map.of(
                "bootstrap.servers", "localhost:1",
                "key.converter", JsonConverter.class.getName(),
                "value.converter", JsonConverter.class.getName(),
                "offset.storage.file.filename", ""));
        this.metrics = new ConnectMetrics("records", worker, Time.SYSTEM, "");
        json.configure(Map.of("schemas.enable", "true", "converter.type", "value"));
    }

    /** What became of a record: {@code failed}, else {@code record}, null if it was dropped. */
    record Outcome(ShownRecord input, ShownRecord record, KafkaRecord inKafka, Failed failed) { }

    /** A record of Connect. Keys, values and headers are JsonConverter's, with their schemas. */
    record ShownRecord(
            String topic, Integer partition, Long offset, Long timestamp,
            JsonNode key, JsonNode value, List<List<Object>> headers) { }

    /** A record of Kafka. Keys, values and headers are base64. */
    record KafkaRecord(
            String topic, Integer partition, Long timestamp, String key, String value, List<List<Object>> headers) { }

    /** A failure in a stage of Connect, within a class of Connect's or of a plugin. */
    record Failed(String stage, String executing, String error, List<String> texts) {
        static Failed of(String stage, String executing, Throwable error) {
            List<String> texts = new ArrayList<>();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                texts.add(cause.getMessage() == null ? "" : cause.getMessage());
            }
            return new Failed(stage, executing, error.getClass().getName(), texts);
        }
    }

    /** Makes the chain of a connector's config, whose references are resolved. Returns its number. */
    int open(boolean sink, Map<String, String> properties) {
        ConnectorConfig config = new ConnectorConfig(plugins, properties);
        try (LoaderSwap swap = plugins.withClassLoader(loader(config))) {
            int number = lastNumber.incrementAndGet();
            chains.put(number, sink ? new SinkChain(config) : new SourceChain(config));
            return number;
        }
    }

    /** Returns the connector's loader, as its task's thread has it. */
    private ClassLoader loader(ConnectorConfig config) {
        try {
            return plugins.connectorLoader(config.getString(ConnectorConfig.CONNECTOR_CLASS_CONFIG), null);
        } catch (RuntimeException unknown) {
            return plugins.delegatingLoader();
        }
    }

    /** Runs a record through a chain. */
    Outcome run(int number, JsonNode record) {
        Chain<?, ?> chain = chains.get(number);
        try (LoaderSwap swap = plugins.withClassLoader(chain.loader)) {
            return chain.run(record);
        }
    }

    /** Closes a chain's plugins. */
    void close(int number) {
        chains.remove(number).transformations.close();
    }

    /**
     * The converters and transformations of one config.
     *
     * @param <T> what errors are reported with: a record of Kafka or of a source
     * @param <R> records of Connect
     */
    private abstract class Chain<T, R extends ConnectRecord<R>> {
        final ClassLoader loader;
        final Converter keys;
        final Converter values;
        final HeaderConverter headers;
        final RetryWithToleranceOperator<T> operator;
        final TransformationChain<T, R> transformations;

        Chain(ConnectorConfig config) {
            loader = Thread.currentThread().getContextClassLoader();
            ConnectorTaskId id = new ConnectorTaskId(config.getString(ConnectorConfig.NAME_CONFIG), lastNumber.get());
            keys = plugins.newConverter(
                    config, ConnectorConfig.KEY_CONVERTER_CLASS_CONFIG, ConnectorConfig.KEY_CONVERTER_VERSION_CONFIG);
            values = plugins.newConverter(
                    config, ConnectorConfig.VALUE_CONVERTER_CLASS_CONFIG,
                    ConnectorConfig.VALUE_CONVERTER_VERSION_CONFIG);
            headers = plugins.newHeaderConverter(
                    config, ConnectorConfig.HEADER_CONVERTER_CLASS_CONFIG,
                    ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
            operator = new RetryWithToleranceOperator<>(
                    0, 0, ToleranceType.ALL, Time.SYSTEM, new ErrorHandlingMetrics(id, metrics));
            transformations = new TransformationChain<>(config.<R>transformationStages(plugins, id, metrics), operator);
        }

        Outcome run(JsonNode written) {
            ShownRecord input = null;
            try {
                T original = original(written);
                ProcessingContext<T> context = new ProcessingContext<>(original);
                R converted = convert(context, original);
                if (converted != null) {
                    input = shown(converted);
                    R transformed = transformations.apply(context, converted);
                    if (transformed != null) {
                        KafkaRecord inKafka = inKafka(context, transformed);
                        if (!context.failed()) {
                            return new Outcome(input, shown(transformed), inKafka, null);
                        }
                    }
                }
                if (!context.failed()) {
                    return new Outcome(input, null, null, null);
                }
                String executing = context.executingClass().getName();
                return failed(input, Failed.of(context.stage().name(), executing, context.error()));
            } catch (ConnectException error) {
                // Such as an invalid timestamp, which fails the task
                return failed(input, Failed.of(Stage.KAFKA_PRODUCE.name(), "", error));
            } catch (Throwable error) {
                return failed(input, Failed.of(Stage.TRANSFORMATION.name(), "", error));
            }
        }

        private Outcome failed(ShownRecord input, Failed failed) {
            return new Outcome(input, null, null, failed);
        }

        <V> V execute(ProcessingContext<T> context, Stage stage, Object plugin, Operation<V> operation) {
            if (context.failed()) {
                return null;  // Else the context forgets in which stage
            }
            return operator.execute(context, () -> {
                try (LoaderSwap swap = plugins.safeLoaderSwapper().apply(plugin.getClass().getClassLoader())) {
                    return operation.call();
                }
            }, stage, plugin.getClass());
        }

        abstract T original(JsonNode written);

        /** Returns the record that the first transformation gets; null if a converter failed. */
        abstract R convert(ProcessingContext<T> context, T original);

        /** Returns the record as Kafka gets it; null for a sink's, and if a converter failed. */
        abstract KafkaRecord inKafka(ProcessingContext<T> context, R record);
    }

    private final class SinkChain extends Chain<ConsumerRecord<byte[], byte[]>, SinkRecord> {
        SinkChain(ConnectorConfig config) {
            super(config);
        }

        @Override
        ConsumerRecord<byte[], byte[]> original(JsonNode written) {
            RecordHeaders headers = new RecordHeaders();
            written.get("headers").forEach(header -> headers.add(header.get(0).asText(), bytes(header.get(1))));
            JsonNode timestamp = written.get("timestamp");
            return new ConsumerRecord<>(
                    written.get("topic").asText(), written.get("partition").asInt(), written.get("offset").asLong(),
                    timestamp.isNull() ? ConsumerRecord.NO_TIMESTAMP : timestamp.asLong(),
                    timestamp.isNull() ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME,
                    -1, -1, bytes(written.get("key")), bytes(written.get("value")), headers, Optional.empty());
        }

        @Override
        SinkRecord convert(
                ProcessingContext<ConsumerRecord<byte[], byte[]>> context, ConsumerRecord<byte[], byte[]> record) {
            SchemaAndValue key = execute(context, Stage.KEY_CONVERTER, keys, () ->
                    keys.toConnectData(record.topic(), record.headers(), record.key()));
            SchemaAndValue value = execute(context, Stage.VALUE_CONVERTER, values, () ->
                    values.toConnectData(record.topic(), record.headers(), record.value()));
            Headers converted = execute(context, Stage.HEADER_CONVERTER, headers, () -> headersOf(record));
            if (context.failed()) {
                return null;
            }
            return new SinkRecord(
                    record.topic(), record.partition(), key.schema(), key.value(), value.schema(), value.value(),
                    record.offset(), ConnectUtils.checkAndConvertTimestamp(record.timestamp()),
                    record.timestampType(), converted);
        }

        private Headers headersOf(ConsumerRecord<byte[], byte[]> record) {
            Headers converted = new ConnectHeaders();
            record.headers().forEach(header -> converted.add(
                    header.key(), headers.toConnectHeader(record.topic(), header.key(), header.value())));
            return converted;
        }

        @Override
        KafkaRecord inKafka(ProcessingContext<ConsumerRecord<byte[], byte[]>> context, SinkRecord record) {
            return null;
        }
    }

    private final class SourceChain extends Chain<SourceRecord, SourceRecord> {
        SourceChain(ConnectorConfig config) {
            super(config);
        }

        @Override
        SourceRecord original(JsonNode written) {
            String topic = written.get("topic").asText();
            SchemaAndValue key = value(topic, written.get("key"));
            SchemaAndValue value = value(topic, written.get("value"));
            ConnectHeaders headers = new ConnectHeaders();
            written.get("headers").forEach(header -> headers.add(header.get(0).asText(), value(topic, header.get(1))));
            JsonNode partition = written.get("partition");
            JsonNode timestamp = written.get("timestamp");
            return new SourceRecord(
                    Map.of(), Map.of(), topic, partition.isNull() ? null : partition.asInt(),
                    key.schema(), key.value(), value.schema(), value.value(),
                    timestamp.isNull() ? null : timestamp.asLong(), headers);
        }

        @Override
        SourceRecord convert(ProcessingContext<SourceRecord> context, SourceRecord record) {
            return record;
        }

        @Override
        KafkaRecord inKafka(ProcessingContext<SourceRecord> context, SourceRecord record) {
            RecordHeaders converted = execute(context, Stage.HEADER_CONVERTER, headers, () -> headersOf(record));
            byte[] key = execute(context, Stage.KEY_CONVERTER, keys, () ->
                    keys.fromConnectData(record.topic(), converted, record.keySchema(), record.key()));
            byte[] value = execute(context, Stage.VALUE_CONVERTER, values, () ->
                    values.fromConnectData(record.topic(), converted, record.valueSchema(), record.value()));
            if (context.failed()) {
                return null;
            }
            List<List<Object>> written = new ArrayList<>();
            converted.forEach(header -> written.add(pair(header.key(), text(header.value()))));
            return new KafkaRecord(
                    record.topic(), record.kafkaPartition(), ConnectUtils.checkAndConvertTimestamp(record.timestamp()),
                    text(key), text(value), written);
        }

        private RecordHeaders headersOf(SourceRecord record) {
            RecordHeaders written = new RecordHeaders();
            record.headers().forEach(header -> written.add(
                    header.key(),
                    headers.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value())));
            return written;
        }
    }

    // --- values of Connect as JSON, and back ---

    private ShownRecord shown(ConnectRecord<?> record) {
        List<List<Object>> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(pair(header.key(), shown(record.topic(), header.schema(), header.value())));
        }
        return new ShownRecord(
                record.topic(), record.kafkaPartition(), record instanceof SinkRecord sink ? sink.kafkaOffset() : null,
                record.timestamp(), shown(record.topic(), record.keySchema(), record.key()),
                shown(record.topic(), record.valueSchema(), record.value()), headers);
    }

    private JsonNode shown(String topic, Schema schema, Object value) {
        if (schema == null) {
            ObjectNode envelope = Wire.JSON.createObjectNode().putNull("schema");
            return envelope.set("payload", Wire.JSON.valueToTree(plain(value)));
        }
        byte[] bytes = json.fromConnectData(topic, schema, value);
        try {
            return Wire.JSON.readTree(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Returns a value without a schema as JSON has it: bytes and what JSON lacks are texts. */
    private static Object plain(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> members = new LinkedHashMap<>();
            map.forEach((key, member) -> members.put(String.valueOf(key), plain(member)));
            return members;
        }
        if (value instanceof Struct struct) {
            Map<String, Object> members = new LinkedHashMap<>();
            for (Field field : struct.schema().fields()) {
                members.put(field.name(), plain(struct.get(field)));
            }
            return members;
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Chains::plain).toList();
        }
        if (value instanceof byte[] bytes) {
            return BASE64 + text(bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            byte[] bytes = new byte[buffer.remaining()];
            buffer.duplicate().get(bytes);
            return BASE64 + text(bytes);
        }
        if (value instanceof BigDecimal number) {
            return number.toPlainString();
        }
        if (value instanceof java.util.Date date) {
            return date.toInstant().toString();
        }
        return value == null || value instanceof Number || value instanceof Boolean ? value : value.toString();
    }

    private SchemaAndValue value(String topic, JsonNode envelope) {
        if (envelope.get("schema").isNull()) {
            return new SchemaAndValue(null, unplain(Wire.JSON.convertValue(envelope.get("payload"), Object.class)));
        }
        try {
            return json.toConnectData(topic, Wire.JSON.writeValueAsBytes(envelope));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Object unplain(Object value) {
        if (value instanceof Map<?, ?> map) {
            Map<Object, Object> members = new LinkedHashMap<>();
            map.forEach((key, member) -> members.put(key, unplain(member)));
            return members;
        }
        if (value instanceof List<?> list) {
            return new ArrayList<>(list.stream().map(Chains::unplain).toList());
        }
        if (value instanceof String text && text.startsWith(BASE64)) {
            return Base64.getDecoder().decode(text.substring(BASE64.length()));
        }
        // As JsonConverter reads numbers
        return value instanceof Integer number ? number.longValue() : value;
    }

    private static List<Object> pair(String name, Object value) {
        List<Object> pair = new ArrayList<>();
        pair.add(name);
        pair.add(value);
        return pair;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
