package connect.engine;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.Herder;
import org.apache.kafka.connect.runtime.TopicStatus;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.WorkerConfigTransformer;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedHerder;
import org.apache.kafka.connect.runtime.isolation.LoaderSwap;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.RestClient;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.runtime.standalone.StandaloneHerder;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.storage.ConfigBackingStore;
import org.apache.kafka.connect.storage.StatusBackingStore;

/**
 * Apache's worker, distributed or standalone, without its REST server, group and topics: its plugins,
 * and a herder that answers questions about them and is never started. The process that started this
 * JVM places the tasks, writes the statuses and keeps the offsets.
 */
final class Host {
    final Plugins plugins;
    final WorkerConfig config;
    final ConnectorClientConfigOverridePolicy policy;
    final OffsetRows offsets;
    final Worker worker;
    private static final long TOPIC_REPORTED_MS = 5_000;
    private static final String ADMIN_OVERRIDE = "admin.override.";
    private final Wire wire;
    private final Secrets secrets;
    private final Map<String, Long> reloads = new ConcurrentHashMap<>();
    private final String workerId;
    private Herder herder;

    /**
     * Builds the worker, which asks Kafka for its cluster's id, unless {@code config} has done so. It
     * and {@code policy} are the worker's file's.
     */
    Host(
            Wire wire,
            Secrets secrets,
            Plugins plugins,
            WorkerConfig config,
            ConnectorClientConfigOverridePolicy policy,
            String workerId) {
        this.wire = wire;
        this.secrets = secrets;
        this.plugins = plugins;
        this.config = config;
        this.policy = policy;
        offsets = new OffsetRows(wire);
        worker = new Worker(workerId, Time.SYSTEM, plugins, config, offsets, policy);
        this.workerId = workerId;
        replaceHerderOfTasks();
        worker.start();
    }

    /** Returns the config that the properties of a worker's file, with Apache's names, mean. */
    static WorkerConfig configOf(Map<String, String> properties) {
        boolean alone = properties.containsKey(StandaloneConfig.OFFSET_STORAGE_FILE_FILENAME_CONFIG);
        return alone ? new StandaloneConfig(properties) : new DistributedConfig(properties);
    }

    /** Returns a config with its references resolved, and reports what they stand for as secrets. */
    Map<String, String> resolve(Map<String, String> written) {
        return resolve(null, written);
    }

    /**
     * Returns a config with its references resolved. Of a connector that is to start again when a value
     * expires, {@link #takeReloadMs} has the time then.
     *
     * @param connector the connector that starts with it, or null
     */
    Map<String, String> resolve(String connector, Map<String, String> written) {
        WorkerConfigTransformer transformer = worker.configTransformer();
        Map<String, String> resolved =
                transformer == null ? written : transformer.transform(connector, written);
        List<String> provided = new ArrayList<>();
        resolved.forEach((key, value) -> {
            if (value != null && !value.equals(written.get(key))) {
                provided.add(value);
            }
        });
        secrets.report(provided);
        return resolved;
    }

    /** Returns the properties of a connector's admin client, as Connect's worker makes them. */
    Map<String, Object> adminProperties(Map<String, String> written) {
        Map<String, Object> properties = new HashMap<>();
        Set<String> names = AdminClientConfig.configNames();
        config.originals().forEach((key, value) -> {
            if (names.contains(key)) {
                properties.put(key, value);
            }
        });
        properties.putAll(config.originalsWithPrefix("admin."));
        resolve(written).forEach((key, value) -> {
            if (key.startsWith(ADMIN_OVERRIDE)) {
                properties.put(key.substring(ADMIN_OVERRIDE.length()), value);
            }
        });
        return properties;
    }

    /** A use of a connector's object. */
    interface Use<T> {
        T run(Connector connector) throws Exception;
    }

    /**
     * Makes an object of the connector of a config, reports its passwords, and uses it, all with the
     * class loader of its plugin: definitions may look classes up.
     *
     * @param config resolved
     */
    <T> T withConnector(Map<String, String> config, Use<T> use) throws Exception {
        String type = config.get(ConnectorConfig.CONNECTOR_CLASS_CONFIG);
        var range = PluginUtils.connectorVersionRequirement(config.get(ConnectorConfig.CONNECTOR_VERSION));
        try (LoaderSwap swap = plugins.withClassLoader(plugins.connectorLoader(type, range))) {
            Connector connector = plugins.newConnector(type, range);
            reportPasswords(connector, config);
            return use.run(connector);
        }
    }

    /** Reports the values of a connector's PASSWORD keys as secrets. */
    private void reportPasswords(Connector connector, Map<String, String> config) {
        List<String> values = new ArrayList<>();
        connector.config().configKeys().forEach((key, definition) -> {
            if (definition.type == ConfigDef.Type.PASSWORD && config.get(key) != null) {
                values.add(config.get(key));
            }
        });
        secrets.report(values);
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    /**
     * Statuses are the other side's. Those of topics show it which topics a connector uses: each is
     * reported again after a while, for that side forgets them when a user resets them.
     */
    private StatusBackingStore statuses() {
        Map<String, TopicStatus> topics = new ConcurrentHashMap<>();
        return proxy(StatusBackingStore.class, (store, method, arguments) -> {
            if (method.getName().equals("getTopic")) {
                TopicStatus topic = topics.get(arguments[0] + " " + arguments[1]);
                boolean recent = topic != null
                        && System.currentTimeMillis() - topic.discoverTimestamp() < TOPIC_REPORTED_MS;
                return recent ? topic : null;
            }
            if (method.getName().equals("put") && arguments[0] instanceof TopicStatus topic) {
                topics.put(topic.connector() + " " + topic.topic(), topic);
                wire.event("topic", Map.of("connector", topic.connector(), "topic", topic.topic()));
            }
            return empty(method.getReturnType());
        });
    }

    private ConfigBackingStore configs() {
        return proxy(ConfigBackingStore.class, (store, method, arguments) ->
                method.getReturnType() == ClusterConfigState.class
                        ? ClusterConfigState.EMPTY
                        : empty(method.getReturnType()));
    }

    private static Object empty(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        if (type == Set.class) {
            return Set.of();
        }
        return type == Collection.class ? List.of() : null;
    }

    /**
     * Returns a herder that is never started and takes part in no group. It is made for the first
     * question, as tasks need none.
     */
    synchronized Herder herder() {
        if (herder == null) {
            herder = newHerder();
            // It has made itself that of tasks
            replaceHerderOfTasks();
        }
        return herder;
    }

    private Herder newHerder() {
        if (config instanceof DistributedConfig distributed) {
            return new DistributedHerder(
                    distributed, Time.SYSTEM, worker, "", statuses(), configs(), "http://" + workerId,
                    new RestClient(config), policy, List.of());
        }
        return new StandaloneHerder(worker, "", policy);
    }

    /** Returns in how many milliseconds a connector is to start again, and forgets it; null: never. */
    Long takeReloadMs(String connector) {
        return reloads.remove(connector);
    }

    /** Gives tasks a herder whose statuses are the other side's, which also restarts connectors. */
    private void replaceHerderOfTasks() {
        StatusBackingStore statuses = statuses();
        Herder ofTasks = proxy(Herder.class, (proxy, method, arguments) -> switch (method.getName()) {
            case "statusBackingStore" -> statuses;
            case "restartConnector" -> {
                reloads.merge((String) arguments[1], (Long) arguments[0], Math::min);
                yield null;
            }
            default -> throw new UnsupportedOperationException(method.getName());
        });
        try {
            Field field = Worker.class.getDeclaredField("herder");
            field.setAccessible(true);
            field.set(worker, ofTasks);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("This is another version of Connect", error);
        }
    }
}
