package connect.engine;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.json.JsonConverterConfig;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.CloseableConnectorContext;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.ConnectorStatus;
import org.apache.kafka.connect.runtime.SinkConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TaskConfig;
import org.apache.kafka.connect.runtime.TooManyTasksException;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.WorkerConnector;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.CloseableOffsetStorageReader;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConnectorOffsetBackingStore;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.OffsetStorageReaderImpl;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.LoggingContext;

/**
 * The connectors' own objects, which start, watch their sources and divide the work into tasks. They
 * share this JVM, as they share a worker in Apache's. Each is known by its name and a number that the
 * other side gave it, so that events of an earlier one are recognized.
 */
final class Connectors {
    private final Host host;
    private final Wire wire;
    private final Map<String, Started> started = new ConcurrentHashMap<>();
    /** Stopped before they were made, which a config provider can hold up: they are not started. */
    private final Set<String> unwanted = ConcurrentHashMap.newKeySet();

    private record Started(
            String name, long serial, WorkerConnector worker, Map<String, String> config, Thread thread) { }

    Connectors(Host host, Wire wire) {
        this.host = host;
        this.wire = wire;
    }

    /**
     * Begins to start a connector. The event {@code connector-resolved} and then
     * {@code connector-started} or {@code connector-failed} follow.
     *
     * @param salt for the fingerprint of what its config resolves to
     */
    void start(String name, long serial, Map<String, String> written, byte[] salt) throws Exception {
        Map<String, String> config = host.resolve(name, written);
        Map<String, Object> resolved = fields(name, serial);
        resolved.put("fingerprint", fingerprint(config, salt));
        resolved.put("reloadMs", host.takeReloadMs(name));
        wire.event("connector-resolved", resolved);
        try (LoggingContext logs = LoggingContext.forConnector(name)) {
            host.withConnector(config, connector -> {
                start(name, serial, config, connector);
                return null;
            });
        }
    }

    private static String fingerprint(Map<String, String> config, byte[] salt) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(salt, "HmacSHA256"));
        return HexFormat.of().formatHex(mac.doFinal(Wire.JSON.writeValueAsBytes(new TreeMap<>(config))));
    }

    private void start(String name, long serial, Map<String, String> config, Connector connector) {
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        WorkerConnector worker = worker(name, serial, connector, config, loader);
        Thread thread = new Thread(host.plugins.withClassLoader(loader, worker), "connector-" + name);
        thread.setDaemon(true);
        synchronized (started) {
            if (unwanted.remove(key(name, serial))) {
                throw new ConnectException("Connector " + name + " was stopped before it was made");
            }
            started.put(key(name, serial), new Started(name, serial, worker, config, thread));
        }
        worker.transitionTo(TargetState.STARTED, (error, state) -> {
            if (error == null) {
                Map<String, Object> fields = fields(name, serial);
                fields.put("version", worker.connectorVersion());
                fields.put("kind", worker.isSinkConnector() ? "sink" : "source");
                wire.event("connector-started", fields);
            }
        });
        thread.start();
    }

    private WorkerConnector worker(
            String name, long serial, Connector connector, Map<String, String> config, ClassLoader loader) {
        CloseableOffsetStorageReader reader = null;
        ConnectorOffsetBackingStore store = null;
        ConnectorConfig parsed;
        if (ConnectUtils.isSinkConnector(connector)) {
            parsed = new SinkConnectorConfig(host.plugins, config);
        } else {
            parsed = new SourceConnectorConfig(host.plugins, config, host.config.topicCreationEnable());
            store = ConnectorOffsetBackingStore.withOnlyWorkerStore(
                    () -> LoggingContext.forConnector(name), host.offsets, host.config.offsetsTopic());
            reader = new OffsetStorageReaderImpl(
                    store, name, internalConverter(true), internalConverter(false));
        }
        return new WorkerConnector(
                name, connector, parsed, new Context(name, serial), host.worker.metrics(),
                new Listener(serial), reader, store, loader);
    }

    private Converter internalConverter(boolean isKey) {
        return host.plugins.newInternalConverter(
                isKey, JsonConverter.class.getName(), Map.of(JsonConverterConfig.SCHEMAS_ENABLE_CONFIG, "false"));
    }

    /**
     * Returns the task configs of a connector as the config topic holds them: completed, and with
     * references in place of what they stand for.
     *
     * @param written the connector's config, with references
     */
    List<Map<String, String>> taskConfigs(String name, long serial, Map<String, String> written)
            throws Exception {
        Started connector = find(name, serial);
        ConnectorConfig config = new ConnectorConfig(host.plugins, connector.config);
        try (LoaderSwap swap = host.plugins.withClassLoader(connector.worker.loader());
                LoggingContext logs = LoggingContext.forConnector(name)) {
            Connector plugin = connector.worker.connector();
            String taskClass = plugin.taskClass().getName();
            List<Map<String, String>> answer = plugin.taskConfigs(config.tasksMax());
            check(connector, answer.size(), config);
            List<Map<String, String>> completed = new ArrayList<>();
            for (Map<String, String> task : answer) {
                Map<String, String> complete = new HashMap<>(task);
                complete.put(TaskConfig.TASK_CLASS_CONFIG, taskClass);
                for (String key : List.of(SinkTask.TOPICS_CONFIG, SinkTask.TOPICS_REGEX_CONFIG)) {
                    if (connector.config.containsKey(key)) {
                        complete.put(key, connector.config.get(key));
                    }
                }
                completed.add(complete);
            }
            ClusterConfigState state = new ClusterConfigState(
                    0, null, Map.of(), Map.of(name, written), Map.of(), Map.of(),
                    Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
            return AbstractHerder.reverseTransform(name, state, completed);
        }
    }

    private static void check(Started connector, int count, ConnectorConfig config) {
        if (count > config.tasksMax() && config.enforceTasksMax()) {
            TooManyTasksException error = new TooManyTasksException(connector.name, count, config.tasksMax());
            connector.worker.fail(error);
            throw error;
        }
    }

    /**
     * Stops a connector, and returns when its {@code stop} has returned. An unknown one is not started
     * any more. One that takes longer than Connect waits is abandoned, and reports nothing any more.
     *
     * @return whether it has stopped
     */
    boolean stop(String name, long serial) {
        Started connector;
        synchronized (started) {
            connector = started.remove(key(name, serial));
            if (connector == null) {
                unwanted.add(key(name, serial));
                return true;
            }
        }
        connector.worker.shutdown();
        if (connector.worker.awaitShutdown(Worker.CONNECTOR_GRACEFUL_SHUTDOWN_TIMEOUT_MS)) {
            return true;
        }
        connector.worker.cancel();
        connector.thread.interrupt();
        return false;
    }

    /**
     * Asks a connector whether its offsets may be changed.
     *
     * @param offsets pairs of a partition and its new offset; null resets the partition
     * @return true if the plugin will accept them; false if it does not know
     */
    boolean alterOffsets(Map<String, String> written, JsonNode offsets) throws Exception {
        Map<String, String> config = host.resolve(written);
        try {
            return host.withConnector(config, connector -> alterOffsets(connector, config, offsets));
        } catch (UnsupportedOperationException error) {
            throw new ConnectException(
                    "Failed to modify offsets for connector " + config.get(ConnectorConfig.NAME_CONFIG)
                            + " because it doesn't support external modification of offsets",
                    error);
        }
    }

    private static boolean alterOffsets(Connector connector, Map<String, String> config, JsonNode offsets) {
        if (connector instanceof SourceConnector source) {
            Map<Map<String, ?>, Map<String, ?>> changes = new HashMap<>();
            offsets.forEach(pair -> changes.put(object(pair.get(0)), object(pair.get(1))));
            return source.alterOffsets(config, changes);
        }
        Map<TopicPartition, Long> changes = new HashMap<>();
        offsets.forEach(pair -> changes.put(
                new TopicPartition(pair.get(0).get("topic").asText(), pair.get(0).get("partition").asInt()),
                pair.get(1).isNull() ? null : pair.get(1).asLong()));
        return ((SinkConnector) connector).alterOffsets(config, changes);
    }

    private static Map<String, ?> object(JsonNode value) {
        return value.isNull()
                ? null
                : Wire.JSON.convertValue(value, new TypeReference<Map<String, Object>>() { });
    }

    private Started find(String name, long serial) {
        Started connector = started.get(key(name, serial));
        if (connector == null) {
            throw new ConfigException("Connector " + name + " is not started");
        }
        return connector;
    }

    private static String key(String name, long serial) {
        return serial + " " + name;
    }

    private static Map<String, Object> fields(String name, long serial) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("connector", name);
        fields.put("serial", serial);
        return fields;
    }

    private void report(String name, long serial, Throwable cause) {
        if (Engine.isEnding()) {
            // Another one ends the JVM, and this one has failed by that: it starts again.
            return;
        }
        Map<String, Object> fields = fields(name, serial);
        fields.put("failure", Failure.of(cause));
        wire.event("connector-failed", fields);
    }

    /** What a connector asks of its worker. */
    private final class Context implements CloseableConnectorContext {
        private final String name;
        private final long serial;
        private final PluginMetricsImpl metrics;
        private volatile boolean closed;

        Context(String name, long serial) {
            this.name = name;
            this.serial = serial;
            this.metrics = host.worker.metrics().connectorPluginMetrics(name);
        }

        @Override
        public void requestTaskReconfiguration() {
            refuseClosed("for task reconfiguration");
            wire.event("connector-reconfigured", fields(name, serial));
        }

        @Override
        public void raiseError(Exception error) {
            refuseClosed("to fail the connector");
            report(name, serial, error);
        }

        private void refuseClosed(String request) {
            if (closed) {
                throw new ConnectException("The request " + request + " has been rejected because this "
                        + "instance of the connector '" + name + "' has already been shut down.");
            }
        }

        @Override
        public PluginMetrics pluginMetrics() {
            return metrics;
        }

        @Override
        public void close() {
            closed = true;
            try {
                metrics.close();
            } catch (Exception error) {
                throw new ConnectException(error);
            }
        }
    }

    /** Reports failures; the rest of a connector's life is asked for by the other side. */
    private final class Listener implements ConnectorStatus.Listener {
        private final long serial;

        Listener(long serial) {
            this.serial = serial;
        }

        @Override
        public void onFailure(String name, Throwable cause) {
            report(name, serial, cause);
        }

        @Override
        public void onStartup(String name) { }

        @Override
        public void onStop(String name) { }

        @Override
        public void onPause(String name) { }

        @Override
        public void onResume(String name) { }

        @Override
        public void onShutdown(String name) { }

        @Override
        public void onDeletion(String name) { }

        @Override
        public void onRestart(String name) { }
    }
}
