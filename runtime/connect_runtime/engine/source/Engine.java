package connect.engine;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeTransactionsResult;
import org.apache.kafka.clients.admin.FenceProducersOptions;
import org.apache.kafka.common.errors.TransactionalIdAuthorizationException;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.runtime.Loggers;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.slf4j.LoggerFactory;

/**
 * The program of a JVM that runs Java plugins for another process: it lists and validates, runs
 * connectors, tasks or single records, as the requests of that process ask. It ends with that process.
 */
public final class Engine {
    private static final TypeReference<Map<String, String>> CONFIG = new TypeReference<>() { };
    private static final String JMX_PORT = "java.jmx.port";
    private static final int PROTOCOL = 1;
    private static final int FENCE_MS = 60_000;
    private static final int UNUSABLE = 4;

    private final Wire wire = new Wire();
    private final CountDownLatch started = new CountDownLatch(1);
    private final Later<Host> host = new Later<>(() -> usable(this::makeHost));
    private volatile Discovery discovery;
    private volatile Map<String, String> worker;
    private volatile String workerId;

    private Engine() { }

    /** Serves the socket at file descriptor 0 until the other side has closed it. */
    public static void main(String[] arguments) throws Exception {
        // A plugin that reads or closes its input must not take the engine's.
        System.setIn(InputStream.nullInputStream());
        Engine engine = new Engine();
        LogLines.redirect(engine.wire);
        engine.wire.serve(engine.calls());
        // Not exit: hooks of plugins may hang, and the process that would end this one is gone.
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Wire.Call> calls() {
        Map<String, Wire.Call> calls = new HashMap<>();
        calls.put("plugins", call -> Catalog.list(discovery().found()));
        Later<Providers> providers = new Later<>(() -> new Providers(plugins(), wire));
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
        Later<Measurements> measurements = new Later<>(() -> new Measurements(host()));
        calls.put("metrics", call -> measurements.get().read());
        calls.replaceAll((name, call) -> arguments -> {
            // As on all threads of Apache's worker: a class that a config names is looked for in every plugin
            plugins().compareAndSwapWithDelegatingLoader();
            return call.answer(arguments);
        });
        calls.put("start", this::start);
        // Not halt, at which a JVM writes no archive of its classes
        calls.put("exit", call -> {
            System.exit(0);
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
        Later<Tasks> tasks = new Later<>(() -> new Tasks(host(), wire));
        calls.put("start-task", call ->
                tasks.get().start(Wire.JSON.treeToValue(call.get("attempt"), Tasks.Attempt.class)));
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

    /** Scans the plugins; later requests wait for that. */
    private Object start(JsonNode call) throws Exception {
        if (call.get("protocol").asInt() != PROTOCOL) {
            throw new IllegalArgumentException("The engine speaks version " + PROTOCOL + " of the protocol");
        }
        worker = config(call, "worker");
        workerId = call.get("workerId").asText();
        if (!worker.getOrDefault(JMX_PORT, "").isEmpty()) {
            serveJmx(Integer.parseInt(worker.get(JMX_PORT)));
        }
        discovery = usable(() -> {
            Discovery discovered = Discovery.of(
                    worker, location -> wire.event("scanning", Map.of("location", location)));
            wire.event("scanned", Map.of());
            showWorkerFile(Path.of(call.get("file").asText()), worker);
            return discovered;
        });
        started.countDown();
        return Map.of("version", org.apache.kafka.common.utils.AppInfoParser.getVersion());
    }

    /**
     * Writes the worker's properties to a file in memory, and names it in the command of this process
     * as Apache's worker does: Iceberg's sink looks for its clients' properties there.
     */
    private static void showWorkerFile(Path file, Map<String, String> worker) throws IOException {
        Properties properties = new Properties();
        properties.putAll(worker);
        try (OutputStream out = Files.newOutputStream(file, StandardOpenOption.WRITE)) {
            properties.store(out, null);
        }
        System.setProperty("sun.java.command", ConnectDistributed.class.getName() + " " + file);
    }

    private static void serveJmx(int port) {
        try {
            Jmx.serve(port);
        } catch (IOException | LinkageError error) {
            // Some runtime images of Java have no RMI.
            LoggerFactory.getLogger(Engine.class).warn("JMX is not served", error);
        }
    }

    private Discovery discovery() throws InterruptedException {
        started.await();
        return discovery;
    }

    private Plugins plugins() throws InterruptedException {
        return discovery().plugins();
    }

    /** Returns the worker, built for the first request that needs one, as it asks Kafka. */
    private Host host() throws Exception {
        return host.get();
    }

    private Host makeHost() throws InterruptedException {
        return new Host(wire, plugins(), worker, workerId);
    }

    /** Returns a value without which this JVM is of no use: another one tries again. */
    private <T> T usable(Callable<T> make) {
        try {
            return make.call();
        } catch (Throwable error) {
            // Kafka may be away.
            wire.event("unusable", Map.of("failure", Failure.of(error)));
            Runtime.getRuntime().halt(UNUSABLE);
            throw new IllegalStateException(error);
        }
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
    private static final class Later<T> {
        private final Callable<T> make;
        private T value;

        Later(Callable<T> make) {
            this.make = make;
        }

        synchronized T get() throws Exception {
            if (value == null) {
                value = make.call();
            }
            return value;
        }
    }
}
