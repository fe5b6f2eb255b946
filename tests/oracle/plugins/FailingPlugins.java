package failing;

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.transforms.Transformation;

/** Plugins that fail as tests want, for a worker that is compared with ours. */
public final class FailingPlugins {
    /** Is busy at its first `times` attempts. */
    public static final class Busy implements Transformation<SinkRecord> {
        private int left;

        @Override
        public void configure(Map<String, ?> config) {
            left = Integer.parseInt((String) config.get("times"));
        }

        @Override
        public SinkRecord apply(SinkRecord record) {
            if (left-- > 0) {
                throw new RetriableException("busy");
            }
            return record;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define("times", ConfigDef.Type.STRING, ConfigDef.Importance.LOW, "");
        }

        @Override
        public void close() {
        }
    }

    /** A sink that reports all records. */
    public static final class Refusing extends SinkConnector {
        private Map<String, String> props;

        @Override
        public void start(Map<String, String> props) {
            this.props = props;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return RefusingTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int maxTasks) {
            return Collections.singletonList(props);
        }

        @Override
        public void stop() {
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    public static final class RefusingTask extends SinkTask {
        @Override
        public void start(Map<String, String> props) {
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                context.errantRecordReporter().report(record, new DataException("no room"));
            }
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
