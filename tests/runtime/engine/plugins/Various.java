package tests;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.transforms.Transformation;

/** Plugins of each kind, of the version that a file of their own jar has. */
public final class Various {
    private Various() { }

    static String version() {
        try (InputStream file = Various.class.getResourceAsStream("/version.txt")) {
            return file == null ? "1.0" : new String(file.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A source that never runs; its validation hangs or ends the JVM if its config says so. */
    public static class Source extends SourceConnector {
        @Override
        public void start(Map<String, String> config) { }

        @Override
        public Class<? extends Task> taskClass() {
            return null;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of();
        }

        @Override
        public void stop() { }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                    .define("does", ConfigDef.Type.STRING, "nothing", ConfigDef.Importance.HIGH, "")
                    .define("quote", ConfigDef.Type.STRING, null, ConfigDef.Importance.HIGH, "");
        }

        @Override
        public Config validate(Map<String, String> config) {
            if ("hang".equals(config.get("does"))) {
                try {
                    Thread.sleep(Long.MAX_VALUE);
                } catch (InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            } else if ("exit".equals(config.get("does"))) {
                Runtime.getRuntime().halt(7);
            }
            Config answer = super.validate(config);
            if (config.get("quote") != null) {
                answer.configValues().get(0).addErrorMessage("cannot log in with " + config.get("quote"));
                answer.configValues().get(0).value("as " + config.get("quote"));
            }
            return answer;
        }

        @Override
        public String version() {
            return Various.version();
        }
    }

    /** A sink whose class cannot be initialized. */
    public static class Broken extends SinkConnector {
        private static final int NUMBER = Integer.parseInt("none");

        @Override
        public void start(Map<String, String> config) { }

        @Override
        public Class<? extends Task> taskClass() {
            return null;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of();
        }

        @Override
        public void stop() { }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "" + NUMBER;
        }
    }

    /** A converter that only Java has. */
    public static class UpperConverter implements Converter, Versioned {
        @Override
        public void configure(Map<String, ?> configs, boolean isKey) { }

        @Override
        public byte[] fromConnectData(String topic, Schema schema, Object value) {
            return value == null ? null : value.toString().toUpperCase().getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public SchemaAndValue toConnectData(String topic, byte[] value) {
            return new SchemaAndValue(null, value == null ? null : new String(value, StandardCharsets.UTF_8));
        }

        @Override
        public String version() {
            return Various.version();
        }
    }

    /** A transformation that only Java has. */
    public static class Prefix implements Transformation<SourceRecord>, Versioned {
        @Override
        public SourceRecord apply(SourceRecord record) {
            return record;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef().define(
                    "prefix." + Various.version(), ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "");
        }

        @Override
        public void configure(Map<String, ?> configs) { }

        @Override
        public void close() { }

        @Override
        public String version() {
            return Various.version();
        }
    }

    /** Provides the parameter that a key names; {@code fail} throws, with the value of {@code secret}. */
    public static class Parameters implements ConfigProvider {
        private Map<String, ?> parameters = new HashMap<>();

        @Override
        public void configure(Map<String, ?> configs) {
            parameters = configs;
        }

        @Override
        public ConfigData get(String path) {
            return get(path, Set.of());
        }

        @Override
        public ConfigData get(String path, Set<String> keys) {
            if (keys.contains("fail")) {
                throw new ConfigException("cannot log in with " + parameters.get("secret"));
            }
            Map<String, String> values = new HashMap<>();
            keys.stream().filter(parameters::containsKey).forEach(key -> values.put(key, "" + parameters.get(key)));
            return new ConfigData(values, 60_000L);
        }

        @Override
        public void close() { }
    }
}
