package tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collections;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/**
 * A source that counts up to a number, one record a poll, and ends transactions by itself: each third
 * record commits one, each seventh aborts. A file gets what its worker reports, a line each.
 */
public class Bounded extends SourceConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        if (config.containsKey("order")) {
            new Thread(this::follow).start();
        }
    }

    /** Waits for a file, and does what it says: fails, or asks for new task configs. */
    private void follow() {
        Path order = Path.of(config.get("order"));
        try {
            while (!Files.exists(order)) {
                Thread.sleep(20);
            }
            if (Files.readString(order).equals("fail")) {
                context().raiseError(new ConnectException("The monitor has failed"));
            } else {
                context().requestTaskReconfiguration();
            }
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        String order = config.get("order");
        int count = order != null && Files.exists(Path.of(order)) ? most : 1;
        return Collections.nCopies(count, config);
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic")
                .define("reports", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "A file for reports")
                .define("last", ConfigDef.Type.INT, ConfigDef.Importance.LOW, "The last number")
                .define("support", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "An answer, or a failure")
                .define("boundaries", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "The same");
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return answer(ExactlyOnceSupport.class, config.get("support"));
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> config) {
        return answer(ConnectorTransactionBoundaries.class, config.get("boundaries"));
    }

    private static <E extends Enum<E>> E answer(Class<E> type, String name) {
        if ("failure".equals(name)) {
            throw new ConnectException("no answer");
        }
        return name == null || name.isEmpty() ? null : Enum.valueOf(type, name);
    }

    /** Counts. */
    public static class Counter extends SourceTask {
        private static final Map<String, String> PARTITION = Map.of("counter", "only");
        private Map<String, String> config;
        private long count;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            Map<String, Object> offset = context.offsetStorageReader().offset(PARTITION);
            count = offset == null ? 0 : ((Number) offset.get("count")).longValue();
            report("start at " + count + (context.transactionContext() == null ? "" : ", with boundaries"));
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (count >= Long.parseLong(config.get("last"))) {
                Thread.sleep(20);
                return null;
            }
            count++;
            boolean dates = config.containsKey("dates");
            SourceRecord record = new SourceRecord(
                    PARTITION, Map.of("count", count), config.get("topic"),
                    dates ? Timestamp.SCHEMA : Schema.STRING_SCHEMA, dates ? new Date(count) : "" + count);
            TransactionContext transaction = context.transactionContext();
            if (transaction != null && count % 7 == 0) {
                transaction.abortTransaction(record);
            } else if (transaction != null && count % 3 == 0) {
                transaction.commitTransaction(record);
            }
            return List.of(record);
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata metadata) {
            report("record " + record.sourceOffset().get("count") + (metadata == null ? " was dropped" : ""));
        }

        @Override
        public void commit() {
            report("commit");
        }

        @Override
        public void stop() {
            report("stop");
        }

        private synchronized void report(String line) {
            try {
                Files.writeString(
                        Path.of(config.get("reports")), line + "\n",
                        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
