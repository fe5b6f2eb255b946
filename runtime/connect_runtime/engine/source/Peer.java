package connect.engine;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import javax.management.ObjectName;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsResult;
import org.apache.kafka.clients.admin.FenceProducersOptions;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.Loggers;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/**
 * A process that this JVM works for: its owner, or that of a task that shares it. Each has a worker
 * of its own, so what tasks write, report and count never mixes.
 */
final class Peer {
    private static final TypeReference<Map<String, String>> CONFIG = new TypeReference<>() { };
    private static final int FENCE_MS = 60_000;

    private final Engine engine;
    private final Wire wire;
    private final String suffix;
    private final BeanOwners owners;
    private final Runnable giveUp;
    private final Later<Host> host;
    private final Later<Tasks> tasks;
    private final Later<Measurements> measurements;
    /** Held while a task is started: none may begin after the end. */
    private final Object starting = new Object();
    private boolean ended;

    /**
     * Works for a process.
     *
     * @param suffix of the worker's id, by which MBeans of workers in one JVM differ
     * @param owners of MBeans; null: all are this process's
     * @param giveUp ends the connection, as this JVM is of no use now
     */
    Peer(Engine engine, Wire wire, String suffix, BeanOwners owners, Runnable giveUp) {
        this.engine = engine;
        this.wire = wire;
        this.suffix = suffix;
        this.owners = owners;
        this.giveUp = giveUp;
        host = new Later<>(this::makeHost);
        tasks = new Later<>(() -> new Tasks(host(), wire));
        measurements = new Later<>(() -> new Measurements(host(), this::beans));
    }

    /** Returns the requests that it may make. */
    Map<String, Wire.Call> calls() {
        Map<String, Wire.Call> calls = new HashMap<>();
        calls.put("plugins", call -> Catalog.list(engine.discovery().found()));
        Later<Providers> providers = new Later<>(() -> new Providers(plugins(), engine.secrets()));
        calls.put("provide", call -> providers.get().answer(call));
        calls.put("definition", call ->
                new Catalog(host()).definition(call.get("plugin").asText(), call.get("version")));
        calls.put("validate", call -> {
            try {
                return new Catalog(host()).validate(config(call, "config"), call.get("timeoutMs").asLong());
            } catch (Error | Exception error) {
                throw error;
            } catch (Throwable error) {
                throw new IllegalStateException(error);
            }
        });
        addConnectors(calls);
        addTasks(calls);
        addChains(calls);
        calls.put("fence", this::fence);
        calls.put("denied-ids", this::deniedIds);
        calls.put("metrics", call -> measurements.get().read());
        calls.replaceAll((name, call) -> arguments -> {
            // As on all threads of Apache's worker: a class that a config names is looked for in every plugin
            engine.discovery().plugins().compareAndSwapWithDelegatingLoader();
            return call.answer(arguments);
        });
        calls.put("hide", call -> {
            engine.secrets().report(Wire.JSON.convertValue(call.get("values"), new TypeReference<List<String>>() { }));
            return null;
        });
        Loggers loggers = Loggers.newInstance(Time.SYSTEM);
        calls.put("loggers", call -> loggers.allLevels());
        calls.put("log-level", call ->
                loggers.setLevel(call.get("logger").asText(), call.get("level").asText()));
        return calls;
    }

    private void addConnectors(Map<String, Wire.Call> calls) {
        Later<Connectors> connectors = new Later<>(() -> new Connectors(host(), wire));
        calls.put("start-connector", call -> {
            connectors.get().start(
                    name(call), serial(call), config(call, "config"), call.get("salt").binaryValue());
            return null;
        });
        calls.put("task-configs", call ->
                connectors.get().taskConfigs(name(call), serial(call), config(call, "config")));
        calls.put("stop-connector", call -> connectors.get().stop(name(call), serial(call)));
        calls.put("alter-offsets", call ->
                connectors.get().alterOffsets(config(call, "config"), call.get("offsets")));
    }

    private void addTasks(Map<String, Wire.Call> calls) {
        calls.put("start-task", call -> {
            synchronized (starting) {
                if (ended) {
                    throw new IllegalStateException("The process of the task is gone");
                }
                return tasks.get().start(Wire.JSON.treeToValue(call.get("attempt"), Tasks.Attempt.class));
            }
        });
        calls.put("pause", call -> {
            tasks.get().pause(name(call), call.get("paused").asBoolean());
            return null;
        });
        calls.put("stop-task", call -> {
            tasks.get().stop(name(call), call.get("task").asInt());
            return null;
        });
    }

    private void addChains(Map<String, Wire.Call> calls) {
        Later<Chains> chains = new Later<>(() -> new Chains(plugins()));
        calls.put("open-chain", call -> chains.get().open(call.get("sink").asBoolean(), config(call, "config")));
        calls.put("run-record", call -> chains.get().run(call.get("chain").asInt(), call.get("record")));
        calls.put("close-chain", call -> {
            chains.get().close(call.get("chain").asInt());
            return null;
        });
    }

    /** Returns the plugins, once their JDBC drivers are there. */
    private Plugins plugins() throws InterruptedException {
        engine.discovery().drivers().join();
        return engine.discovery().plugins();
    }

    /** Returns the worker, built for the first request that needs one, as it asks Kafka. */
    private Host host() throws Exception {
        return host.get();
    }

    private Host makeHost() {
        return usable(wire, giveUp, () -> {
            // Kafka is asked while drivers are registered.
            WorkerConfig config = engine.config();
            return new Host(
                    wire, engine.secrets(), plugins(), config, engine.policy(), engine.workerId() + suffix);
        });
    }

    /** Returns a value without which this JVM is of no use to a process, which tries again. */
    static <T> T usable(Wire wire, Runnable giveUp, Callable<T> make) {
        try {
            return make.call();
        } catch (Throwable error) {
            // Kafka may be away.
            wire.event("unusable", Map.of("failure", Failure.of(error)));
            giveUp.run();
            throw new IllegalStateException(error);
        }
    }

    /** The end of a task's process as its owner hears of it. */
    record End(boolean threadLeft, boolean outOfMemory) { }

    /** Ends what runs for a process that is gone: nothing of it is to write any more. */
    End end() throws Exception {
        synchronized (starting) {
            ended = true;
        }
        if (measurements.isMade()) {
            measurements.get().close();
        }
        if (!host.isMade()) {
            return new End(false, false);
        }
        boolean threadLeft = tasks.isMade() && !tasks.get().cancel();
        host().worker.stop();
        return new End(threadLeft, tasks.isMade() && tasks.get().ranOutOfMemory());
    }

    /** Returns the names of this process's MBeans that match a pattern, without a look at all others. */
    private Collection<ObjectName> beans(ObjectName pattern) {
        if (owners == null) {
            return ManagementFactory.getPlatformMBeanServer().queryNames(pattern, null);
        }
        return tasks.isMade() ? tasks.value.beans(owners).filter(pattern::apply).toList() : List.of();
    }

    /** Fences transactional ids, all at once, with the admin client of the connector. */
    private Object fence(JsonNode call) throws Exception {
        Map<String, Object> properties = host().adminProperties(config(call, "config"));
        // The client waits after each answer of a coordinator: six seconds for ten ids with its own
        properties.put("retry.backoff.ms", "5");
        properties.put("retry.backoff.max.ms", "5");
        List<String> ids = Wire.JSON.convertValue(call.get("ids"), new TypeReference<>() { });
        try (Admin admin = Admin.create(properties)) {
            admin.fenceProducers(ids, new FenceProducersOptions().timeoutMs(FENCE_MS))
                    .all()
                    .get(FENCE_MS + 5_000L, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
        return null;
    }

    /**
     * Returns those of the transactional ids that the connector's admin client may not even describe,
     * which a right to write with them includes. Unlike fencing, it changes nothing.
     */
    private Object deniedIds(JsonNode call) throws Exception {
        List<String> ids = Wire.JSON.convertValue(call.get("ids"), new TypeReference<>() { });
        List<String> denied = new ArrayList<>();
        try (Admin admin = Admin.create(host().adminProperties(config(call, "config")))) {
            DescribeTransactionsResult described = admin.describeTransactions(ids);
            for (String id : ids) {
                try {
                    described.description(id).get(FENCE_MS, TimeUnit.MILLISECONDS);
                } catch (ExecutionException error) {
                    if (error.getCause() instanceof TransactionalIdAuthorizationException) {
                        denied.add(id);
                    } else if (!(error.getCause() instanceof TransactionalIdNotFoundException)) {
                        throw error.getCause() instanceof Exception cause ? cause : error;
                    }
                }
            }
        }
        return denied;
    }

    private static String name(JsonNode call) {
        return call.get("connector").asText();
    }

    private static long serial(JsonNode call) {
        return call.get("serial").asLong();
    }

    private static Map<String, String> config(JsonNode call, String key) {
        return Wire.JSON.convertValue(call.get(key), CONFIG);
    }

    /** A value that is made when it is first needed. */
    static final class Later<T> {
        private final Callable<T> make;
        private T value;

        Later(Callable<T> make) {
            this.make = make;
        }

        synchronized boolean isMade() {
            return value != null;
        }

        synchronized T get() throws Exception {
            if (value == null) {
                value = make.call();
            }
            return value;
        }
    }
}
