package tests;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A transformation, a predicate and a converter, for tests of records that Java's classes make. */
public class Marking<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    private static final Schema MARKED = SchemaBuilder.struct().name("tests.Marked")
            .field("text", Schema.OPTIONAL_STRING_SCHEMA)
            .field("length", Schema.INT64_SCHEMA)
            .field("price", Decimal.schema(2))
            .field("at", Timestamp.SCHEMA)
            .field("data", Schema.BYTES_SCHEMA)
            .build();
    private String mark;

    @Override
    public void configure(Map<String, ?> config) {
        mark = (String) config.get("mark");
        if (mark == null) {
            throw new org.apache.kafka.common.config.ConfigException("mark", null, "is required");
        }
    }

    /** Makes a struct of the value, and a header of the mark. */
    @Override
    public R apply(R record) {
        String text = String.valueOf(record.value());
        if (text.equals("exit")) {
            Runtime.getRuntime().halt(7);
        }
        while (text.equals("hang")) {
            Thread.onSpinWait();
        }
        if (text.startsWith("poison")) {
            throw new DataException("cannot mark " + text + " with " + mark, new IllegalStateException("it is poison"));
        }
        Struct value = new Struct(MARKED)
                .put("text", text)
                .put("length", (long) text.length())
                .put("price", new BigDecimal("12345678901234567890.10"))
                .put("at", new Date(1_700_000_000_123L))
                .put("data", new byte[] {(byte) 0xff, 0, 1});
        R marked = record.newRecord(
                record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), MARKED, value,
                record.timestamp(), record.headers().duplicate());
        marked.headers().addString("mark", mark);
        return marked;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("mark", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The mark");
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public void close() { }

    /** Is true for texts of more than one character. */
    public static class Lengthy<R extends ConnectRecord<R>> implements Predicate<R>, Versioned {
        @Override
        public boolean test(R record) {
            return String.valueOf(record.value()).length() > 1;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void configure(Map<String, ?> config) { }

        @Override
        public void close() { }
    }

    /** Writes texts in capitals. */
    public static class Capitals implements Converter, Versioned {
        @Override
        public void configure(Map<String, ?> config, boolean isKey) { }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return value == null ? null : value.toString().toUpperCase(Locale.ROOT).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            String text = value == null ? null : new String(value, StandardCharsets.UTF_8).toLowerCase(Locale.ROOT);
            return new SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, text);
        }

        @Override
        public String version() {
            return "1.0";
        }
    }
}
