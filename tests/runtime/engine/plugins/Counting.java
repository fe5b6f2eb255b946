package tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.transforms.Transformation;

/** A source whose tasks count, and a sink that writes lines, for tests of Java connectors. */
public class Counting extends SourceConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        if (config.containsKey("fail.with")) {
            throw new ConnectException("Cannot log in with " + config.get("fail.with"));
        }
        if (config.containsKey("exit")) {
            Runtime.getRuntime().halt(Integer.parseInt(config.get("exit")));
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> tasks = new ArrayList<>();
        IntStream.range(0, most).forEach(number -> {
            Map<String, String> task = new HashMap<>(config);
            task.put("number", "" + number);
            tasks.add(task);
        });
        return tasks;
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic")
                .define("fail.with", ConfigDef.Type.PASSWORD, null, ConfigDef.Importance.LOW, "A password")
                // Looked up by its name when the keys are asked for, as in Debezium
                .define("counter", ConfigDef.Type.CLASS, "tests.Counting$Counter", ConfigDef.Importance.LOW, "");
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        for (Map<String, ?> offset : offsets.values()) {
            if (offset != null && !(offset.get("count") instanceof Number)) {
                throw new ConnectException("count must be a number");
            }
        }
        return true;
    }

    /** Counts from its offset on, ten records in a poll. */
    public static class Counter extends SourceTask {
        private Map<String, String> config;
        private Map<String, String> partition;
        private long count;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            partition = Map.of("number", config.get("number"));
            Map<String, Object> offset = context.offsetStorageReader().offset(partition);
            count = offset == null ? 0 : ((Number) offset.get("count")).longValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(20);
            List<SourceRecord> records = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                count++;
                records.add(new SourceRecord(
                        partition, Map.of("count", count), config.get("topic"), Schema.STRING_SCHEMA,
                        config.get("number"), Schema.STRING_SCHEMA, "" + count));
            }
            return records;
        }

        @Override
        public void stop() { }
    }

    /** A transformation that changes nothing. */
    public static class Same implements Transformation<SourceRecord> {
        @Override
        public SourceRecord apply(SourceRecord record) {
            return record;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void configure(Map<String, ?> config) { }

        @Override
        public void close() { }
    }

    /** A sink whose task appends each record to a file. */
    public static class Lines extends SinkConnector {
        private Map<String, String> config;

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Writer.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(config);
        }

        @Override
        public void stop() { }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("path", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The file");
        }

        @Override
        public String version() {
            return "1.0";
        }
    }

    /** Appends lines. */
    public static class Writer extends SinkTask {
        private Path path;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            path = Path.of(config.get("path"));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            List<String> lines = records.stream().map(record -> "" + record.value()).toList();
            if (lines.contains("poison")) {
                throw new ConnectException("cannot write poison");
            }
            try {
                Files.write(path, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void stop() { }
    }
}
