package connect.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import javax.management.ObjectName;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.TaskStatus;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectUtils;
import org.apache.kafka.connect.util.ConnectorTaskId;

/** Runs tasks, and reports what becomes of each attempt. */
final class Tasks {
    /** No method that may be called from here leads to what ends a task. */
    private static final Class<?> WORKER_TASK = Tail.ofConnect("WorkerTask");
    /** A source waits as long for its last records, by default, as Connect does for the task. */
    private static final long SLACK_MS = 1_000;
    /** An exception may be its own cause. */
    private static final int CAUSES = 50;
    private final Host host;
    private final Wire wire;
    private final Map<ConnectorTaskId, Object> started = new ConcurrentHashMap<>();
    private volatile boolean outOfMemory;

    Tasks(Host host, Wire wire) {
        this.host = host;
        this.wire = wire;
    }

    /**
     * One attempt at running a task.
     *
     * @param count the number of tasks of the connector
     * @param connectorConfig as written, with references
     * @param taskConfig as written, with references
     * @param exactlyOnce a source that writes in transactions
     * @param tail the source's offsets; null: it reads its topic, or is a sink
     */
    record Attempt(
            String connector,
            int task,
            int attempt,
            int count,
            Map<String, String> connectorConfig,
            Map<String, String> taskConfig,
            boolean exactlyOnce,
            boolean paused,
            Tail tail) {
        ConnectorTaskId id() {
            return new ConnectorTaskId(connector, task);
        }
    }

    /**
     * Begins an attempt. Events {@code task-running}, {@code task-paused}, {@code task-failed} and
     * {@code task-ended} follow. Before and after an exactly-once task fences its predecessor, the
     * request {@code is-newest} asks if the attempt still has the task.
     */
    boolean start(Attempt attempt) {
        ConnectorTaskId id = attempt.id();
        Map<String, String> config = host.resolve(attempt.connectorConfig);
        Map<String, String> taskConfig = host.resolve(attempt.taskConfig);
        ClusterConfigState state = new ClusterConfigState(
                0, null,
                Map.of(attempt.connector, attempt.count),
                Map.of(attempt.connector, attempt.connectorConfig),
                Map.of(attempt.connector, TargetState.STARTED),
                Map.of(id, attempt.taskConfig),
                Map.of(), Map.of(), Map.of(), Set.of(), Set.of(),
                host.worker.configTransformer());
        boolean begun = start(attempt, state, config, taskConfig);
        Object task = Tail.taskOf(host.worker, id);
        if (task != null) {
            started.put(id, task);
        }
        return begun;
    }

    private boolean start(
            Attempt attempt, ClusterConfigState state, Map<String, String> config, Map<String, String> taskConfig) {
        ConnectorTaskId id = attempt.id();
        TargetState target = attempt.paused ? TargetState.PAUSED : TargetState.STARTED;
        Listener listener = new Listener(attempt);
        if (isSink(config)) {
            return host.worker.startSinkTask(id, state, config, taskConfig, listener, target);
        }
        if (!attempt.exactlyOnce) {
            return host.worker.startSourceTask(id, state, config, taskConfig, listener, target);
        }
        return host.worker.startExactlyOnceSourceTask(
                id, state, config, taskConfig, listener, target,
                () -> {
                    refuseStale(attempt);
                    if (attempt.tail != null) {
                        attempt.tail.giveTo(host.worker, id);
                    }
                },
                () -> refuseStale(attempt));
    }

    private boolean isSink(Map<String, String> config) {
        try {
            return host.withConnector(config, ConnectUtils::isSinkConnector);
        } catch (Exception error) {
            String type = config.get(ConnectorConfig.CONNECTOR_CLASS_CONFIG);
            throw new ConnectException("Failed to find the connector " + type, error);
        }
    }

    private void refuseStale(Attempt attempt) {
        try {
            JsonNode newest = wire.ask("is-newest", fields(attempt));
            if (!newest.asBoolean()) {
                throw new ConnectException("Another attempt has the task " + attempt.id());
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new ConnectException(error);
        }
    }

    /** Pauses or resumes all tasks of a connector; returns once each has been told. */
    void pause(String connector, boolean paused) {
        TargetState target = paused ? TargetState.PAUSED : TargetState.STARTED;
        host.worker.setTargetState(connector, target, (error, state) -> { });
    }

    /** Stops a task, and returns when it has ended, or {@code task.shutdown.graceful.timeout.ms} is over. */
    void stop(String connector, int task) {
        host.worker.stopAndAwaitTask(new ConnectorTaskId(connector, task));
    }

    /**
     * Ends the tasks without a last commit. Returns whether all of their threads have ended within
     * {@code task.shutdown.graceful.timeout.ms}, or a second later.
     */
    boolean cancel() {
        boolean ended = true;
        for (Map.Entry<ConnectorTaskId, Object> task : started.entrySet()) {
            call(task.getValue(), "stop");
            call(task.getValue(), "cancel");
            if (Tail.taskOf(host.worker, task.getKey()) != null) {
                host.worker.stopAndAwaitTask(task.getKey());
            }
            ended &= (boolean) call(task.getValue(), "awaitStop", SLACK_MS);
        }
        return ended;
    }

    private static Object call(Object task, String name, Object... arguments) {
        try {
            Class<?>[] types = arguments.length == 0 ? new Class<?>[0] : new Class<?>[] {long.class};
            Method method = WORKER_TASK.getDeclaredMethod(name, types);
            method.setAccessible(true);
            return method.invoke(task, arguments);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("This is another version of Connect", error);
        }
    }

    /** Returns whether one of them has failed for want of memory or threads. */
    boolean ranOutOfMemory() {
        return outOfMemory;
    }

    /** Returns the names of the MBeans that they have registered. */
    Stream<ObjectName> beans(BeanOwners owners) {
        return started.keySet().stream().flatMap(id -> owners.beansOf(id.connector(), id.task()).stream());
    }

    private static Map<String, Object> fields(Attempt attempt) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("connector", attempt.connector);
        fields.put("task", attempt.task);
        fields.put("attempt", attempt.attempt);
        return fields;
    }

    private static boolean isOutOfMemory(Throwable thrown) {
        try {
            Throwable cause = thrown;
            for (int depth = 0; depth < CAUSES && cause != null; depth++) {
                if (cause instanceof OutOfMemoryError) {
                    return true;
                }
                cause = cause.getCause();
            }
        } catch (RuntimeException | StackOverflowError ofPlugin) {
            // It cannot be asked.
        }
        return false;
    }

    private final class Listener implements TaskStatus.Listener {
        private final Attempt attempt;

        Listener(Attempt attempt) {
            this.attempt = attempt;
        }

        private void report(String event) {
            wire.event(event, fields(attempt));
        }

        @Override
        public void onStartup(ConnectorTaskId id) {
            Map<String, Object> fields = fields(attempt);
            fields.put("version", host.worker.taskVersion(id));
            wire.event("task-running", fields);
        }

        @Override
        public void onFailure(ConnectorTaskId id, Throwable cause) {
            if (Engine.isEnding()) {
                // Another one ends the JVM, and this one has failed by that: it is interrupted.
                return;
            }
            outOfMemory |= isOutOfMemory(cause);
            Map<String, Object> fields = fields(attempt);
            fields.put("failure", Failure.of(cause));
            wire.event("task-failed", fields);
        }

        @Override
        public void onPause(ConnectorTaskId id) {
            report("task-paused");
        }

        @Override
        public void onResume(ConnectorTaskId id) {
            report("task-resumed");
        }

        @Override
        public void onShutdown(ConnectorTaskId id) {
            // The other side ends this JVM, or its connection, soon
            host.offsets.awaitWrites();
            report("task-ended");
        }

        @Override
        public void onDeletion(ConnectorTaskId id) { }

        @Override
        public void onRestart(ConnectorTaskId id) { }
    }
}
