package tests;

import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A source whose task has MBeans and metrics, and logs in many ways. */
public class Reporting extends SourceConnector {
    private Map<String, String> config;

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        context.pluginMetrics().addMetric(
                context.pluginMetrics().metricName("of-connector", "", new LinkedHashMap<>()),
                (Gauge<Integer>) (metrics, now) -> 7);
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Reporter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(config);
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1.0";
    }

    /** Gives each key as its value, for five seconds; for half a minute beneath a path. */
    public static class Expiring implements ConfigProvider {
        @Override
        public ConfigData get(String path) {
            throw new UnsupportedOperationException();
        }

        @Override
        public ConfigData get(String path, Set<String> keys) {
            Map<String, String> data = new HashMap<>();
            keys.forEach(key -> data.put(key, key));
            return new ConfigData(data, path.isEmpty() ? 5_000L : 30_000L);
        }

        @Override
        public void configure(Map<String, ?> configs) { }

        @Override
        public void close() { }
    }

    /** Numbers, and what is none. */
    public interface NumbersMXBean {
        long getMilliSecondsBehindSource();

        boolean isConnected();

        double getUnknown();

        String getText();
    }

    /** A value that never comes. */
    public interface HangingMXBean {
        int getForever();
    }

    /** One of many. */
    public interface OneMXBean {
        int getOne();
    }

    /** Reports once, and what its config asks for. */
    public static class Reporter extends SourceTask {
        private static final Logger LOG = LoggerFactory.getLogger("io.example.Reporter");
        private Map<String, String> config;
        private boolean reported;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            try {
                register("debezium.tests:type=connector-metrics,context=streaming,server=\"s\\\"1\",task=9", new NumbersMXBean() {
                    @Override
                    public long getMilliSecondsBehindSource() {
                        return 12;
                    }

                    @Override
                    public boolean isConnected() {
                        return true;
                    }

                    @Override
                    public double getUnknown() {
                        return Double.NaN;
                    }

                    @Override
                    public String getText() {
                        return "text";
                    }
                });
                for (int i = 0; i < Integer.parseInt(config.getOrDefault("beans", "0")); i++) {
                    int number = i;
                    OneMXBean one = () -> number;
                    register("many.beans:number=" + number, one);
                }
                if (config.containsKey("hang")) {
                    HangingMXBean hanging = () -> {
                        while (true) {
                            try {
                                Thread.sleep(1_000);
                            } catch (InterruptedException error) {
                                // for ever
                            }
                        }
                    };
                    register("hanging:type=Bean", hanging);
                }
            } catch (JMException error) {
                throw new ConnectException(error);
            }
            PluginMetrics metrics = context.pluginMetrics();
            LinkedHashMap<String, String> tags = new LinkedHashMap<>(Map.of("odd-tag", "a \"value\"\n"));
            metrics.addMetric(
                    metrics.metricName("rows.read", "", tags), (Gauge<Integer>) (config1, now) -> 5);
        }

        private static void register(String name, Object bean) throws JMException {
            ManagementFactory.getPlatformMBeanServer().registerMBean(bean, new ObjectName(name));
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (!reported) {
                reported = true;
                report();
            }
            Thread.sleep(50);
            return List.of(new SourceRecord(
                    Map.of("of", "one"), new HashMap<>(Map.of("at", 1)), config.get("topic"), Schema.STRING_SCHEMA, "line"));
        }

        private void report() {
            LOG.debug("at debug");
            LOG.warn("two\n2026-01-01 00:00:00,000 ERROR [other] lines");
            LOG.error("half a surrogate \ud800", new ConnectException("first", new ConnectException("second")));
            System.out.println("printed");
            LOG.info("long {}", "x".repeat(1_000_000));
            for (int i = 0; i < Integer.parseInt(config.getOrDefault("flood", "0")); i++) {
                LOG.info("line {} of a flood {}", i, "y".repeat(1_000));
            }
            LOG.info("reported");
        }

        @Override
        public void stop() { }
    }
}
