package connect.engine;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.slf4j.LoggerFactory;

/**
 * The program of a JVM that runs Java plugins for other processes: it lists and validates, runs
 * connectors, tasks or single records, as their requests ask. It ends with the process that started it.
 */
public final class Engine {
    private static final TypeReference<Map<String, String>> CONFIG = new TypeReference<>() { };
    private static final String JMX_PORT = "java.jmx.port";
    private static final int PROTOCOL = 1;
    private static final int UNUSABLE = 4;
    private static final int STUCK = 105;
    private static final long EXIT_MS = 10_000;

    private final Wire wire = Wire.toOwner();
    private final Secrets secrets = new Secrets();
    private final CountDownLatch started = new CountDownLatch(1);
    private volatile Discovery discovery;
    private volatile Map<String, String> worker;
    private volatile String workerId;
    private volatile boolean archives;
    private final Peer.Later<WorkerConfig> config = new Peer.Later<>(() -> Host.configOf(worker));
    private final Peer.Later<ConnectorClientConfigOverridePolicy> policy = new Peer.Later<>(() -> discovery().plugins().newPlugin(
            config.get().getString(WorkerConfig.CONNECTOR_CLIENT_POLICY_CLASS_CONFIG),
            config.get(),
            ConnectorClientConfigOverridePolicy.class));

    private Engine() { }

    /** Serves the socket at file descriptor 0 until the other side has closed it. */
    public static void main(String[] arguments) throws Exception {
        // A plugin that reads or closes its input must not take the engine's.
        System.setIn(InputStream.nullInputStream());
        Engine engine = new Engine();
        LogLines.redirect(engine.wire);
        Runtime.getRuntime().addShutdownHook(new Thread(engine::haltLater));
        engine.serve();
    }

    private void serve() {
        Peer owner = new Peer(this, wire, "", null, Engine::end);
        Map<String, Wire.Call> calls = owner.calls();
        calls.put("start", this::start);
        calls.put("listen", call -> {
            discovery();
            new TaskDoor(this, wire, Path.of(call.get("path").asText())).open();
            TaskDoor.start("engine-config", this::readConfig);
            return null;
        });
        calls.put("ping", call -> true);
        // Not halt, at which a JVM writes no archive of its classes
        calls.put("exit", call -> {
            archives = true;
            System.exit(0);
            return null;
        });
        secrets.add(wire);
        try {
            wire.serve(calls);
        } finally {
            // Not exit: hooks of plugins may hang, and the process that would end this one is gone.
            Runtime.getRuntime().halt(0);
        }
    }

    /** Halts if an exit takes long, such as that of a plugin whose hook waits for a lock of its caller. */
    private void haltLater() {
        Thread halting = new Thread(() -> {
            try {
                Thread.sleep(EXIT_MS);
            } catch (InterruptedException byPlugin) {
                // Which interrupts all threads: then it halts at once.
            }
            Runtime.getRuntime().halt(STUCK);
        });
        halting.setDaemon(true);
        if (!archives) {
            halting.start();
        }
    }

    /** Returns whether this JVM runs its shutdown hooks, such as those that close what others use. */
    static boolean isEnding() {
        Thread hook = new Thread(() -> { });
        try {
            Runtime.getRuntime().addShutdownHook(hook);
            Runtime.getRuntime().removeShutdownHook(hook);
            return false;
        } catch (IllegalStateException ending) {
            return true;
        }
    }

    private static void end() {
        Runtime.getRuntime().halt(UNUSABLE);
    }

    /** Scans the plugins; later requests wait for that. */
    private Object start(JsonNode call) throws Exception {
        if (call.get("protocol").asInt() != PROTOCOL) {
            throw new IllegalArgumentException("The engine speaks version " + PROTOCOL + " of the protocol");
        }
        worker = Wire.JSON.convertValue(call.get("worker"), CONFIG);
        workerId = call.get("workerId").asText();
        if (!worker.getOrDefault(JMX_PORT, "").isEmpty()) {
            serveJmx(Integer.parseInt(worker.get(JMX_PORT)));
        }
        discovery = Peer.usable(wire, Engine::end, () -> {
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

    /** Returns the plugins, once they are found. */
    Discovery discovery() throws InterruptedException {
        started.await();
        return discovery;
    }

    /** Has the config ready for the first task; if Kafka is away, the task says so. */
    private void readConfig() {
        try {
            discovery().plugins().compareAndSwapWithDelegatingLoader();
            config();
        } catch (Exception error) {
            LoggerFactory.getLogger(Engine.class).debug("The worker's config is not ready", error);
        }
    }

    /** Returns the config of the worker's file, whose cluster is asked for its id once. */
    WorkerConfig config() throws Exception {
        return config.get();
    }

    ConnectorClientConfigOverridePolicy policy() throws Exception {
        return policy.get();
    }

    Secrets secrets() {
        return secrets;
    }

    /** Returns what statuses name as the worker. */
    String workerId() {
        return workerId;
    }
}
