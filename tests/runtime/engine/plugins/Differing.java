package tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A source for what workers do differently: its {@code mode} says what it does. It sends the numbers up
 * to {@code last}, and a file gets a line for each call of its methods.
 */
public class Differing extends SourceConnector {
    private static final Logger LOG = LoggerFactory.getLogger("io.example.Differing");
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        LOG.info("connector starts with {}", config.get("value"));
        report(config, "connector starts with " + config.get("value"));
        if (mode(config).equals("connector throws")) {
            throw new ConnectException("Cannot use " + config.get("value"));
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Numbers.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return switch (mode(config)) {
            case "no configs" -> null;
            case "configs throw" -> throw new ConnectException("No tasks from this config");
            default -> List.of(config);
        };
    }

    @Override
    public void stop() {
        report(config, "connector stops");
        if (mode(config).equals("stop throws")) {
            throw new ConnectException("Cannot stop");
        }
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1.0";
    }

    private static String mode(Map<String, String> config) {
        return config.getOrDefault("mode", "");
    }

    private static void report(Map<String, String> config, String line) {
        try {
            Files.writeString(Path.of(config.get("reports")), line + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Sends numbers. */
    public static class Numbers extends SourceTask {
        private final CountDownLatch stopped = new CountDownLatch(1);
        private Map<String, String> config;
        private String mode;
        private Thread polling;
        private int sent;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            mode = mode(config);
            LOG.info("task starts with {}", config.get("value"));
            report(config, "task starts with " + config.get("value"));
            if (mode.equals("task throws")) {
                throw new ConnectException(
                        "Cannot use", new IllegalArgumentException("value=" + config.get("value")));
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            polling = Thread.currentThread();
            if (mode.equals("poll waits")) {
                report(config, "poll waits");
                stopped.await();
                report(config, "poll returns");
                return null;
            }
            if (mode.equals("poll is retried")) {
                report(config, mode);
                throw new RetriableException("Try again");
            }
            if (sent == Integer.parseInt(config.getOrDefault("last", "3"))) {
                Thread.sleep(50);
                return null;
            }
            sent++;
            List<SourceRecord> records = new ArrayList<>();
            records.add(record(config.get("topic"), sent));
            if (mode.equals("two topics")) {
                records.add(record(config.get("topic") + "-other", sent));
            }
            return records;
        }

        private SourceRecord record(String topic, int number) {
            ConnectHeaders headers = new ConnectHeaders();
            headers.addBytes("bytes", ("bytes " + number).getBytes(StandardCharsets.UTF_8));
            if (mode.equals("dates")) {
                headers.addTimestamp("date", new Date(0));
            }
            SchemaAndValue value = value(number);
            return new SourceRecord(Map.of("topic", topic), Map.of("sent", number), topic,
                    mode.equals("partition") && number == 2 ? 99 : null, Schema.INT32_SCHEMA, number,
                    value.schema(), value.value(), null, headers);
        }

        private SchemaAndValue value(int number) {
            switch (mode) {
                case "dates":
                    // before the Gregorian calendar, and beyond the years that others know
                    long at = number == 1 ? -20_000_000_000_000L : 300_000_000_000_000L;
                    return new SchemaAndValue(Timestamp.SCHEMA, new Date(at));
                case "large":
                    return new SchemaAndValue(Schema.STRING_SCHEMA, "x".repeat(number == 2 ? 2_000 : 10));
                case "texts":
                    return new SchemaAndValue(Schema.STRING_SCHEMA, "text " + number);
                case "structs":
                    Schema schema = SchemaBuilder.struct().name("tests.Order")
                            .field("number", Schema.INT32_SCHEMA)
                            .field("note", Schema.OPTIONAL_STRING_SCHEMA)
                            .build();
                    return new SchemaAndValue(schema, new Struct(schema)
                            .put("number", number)
                            .put("note", number == 2 ? null : "note " + number));
                default:
                    Map<String, Object> map = new HashMap<>();
                    for (String name : List.of("zebra", "number", "apple", "melon", "kiwi", "b1", "a2")) {
                        map.put(name, number);
                    }
                    return new SchemaAndValue(null, map);
            }
        }

        @Override
        public void stop() {
            report(config, polling == Thread.currentThread() || polling == null
                    ? "stops" : "stops beside poll");
            stopped.countDown();
        }
    }

    /** Writes texts behind a prefix of its own. */
    public static class Prefixed implements Converter {
        private String prefix = "";

        @Override
        public void configure(Map<String, ?> configs, boolean isKey) {
            prefix = String.valueOf(configs.get("prefix"));
            LOG.info("the prefix is {}", prefix);
        }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return (prefix + value).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            throw new UnsupportedOperationException();
        }
    }

    /** Is true of records with an even key. */
    public static class Even<R extends ConnectRecord<R>> implements Predicate<R> {
        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public boolean test(R record) {
            return record.key() instanceof Integer number && number % 2 == 0;
        }

        @Override
        public void close() { }

        @Override
        public void configure(Map<String, ?> configs) { }
    }

    /** Gives the text of the file that is the path, for three seconds. */
    public static class Files3s implements ConfigProvider {
        @Override
        public ConfigData get(String path) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ConfigData get(String path, Set<String> keys) {
            Map<String, String> data = new HashMap<>();
            try {
                for (String key : keys) {
                    data.put(key, Files.readString(Path.of(path)));
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            return new ConfigData(data, 3_000L);
        }

        @Override
        public void configure(Map<String, ?> configs) { }

        @Override
        public void close() { }
    }
}
