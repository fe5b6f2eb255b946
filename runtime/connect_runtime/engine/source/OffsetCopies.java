package connect.engine;

import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.Callback;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The worker's offsets of an exactly-once task that has an offsets topic of its own. Connect writes
 * them while the task's transaction is open. As it may be aborted, they wait here until it is
 * committed. Removals do not wait: Connect writes them first, or what was removed would be seen here.
 */
final class OffsetCopies implements OffsetBackingStore {
    private static final Logger LOG = LoggerFactory.getLogger(OffsetCopies.class);
    private final OffsetBackingStore worker;
    private Map<ByteBuffer, ByteBuffer> open = new HashMap<>();

    OffsetCopies(OffsetBackingStore worker) {
        this.worker = worker;
    }

    @Override
    public synchronized Future<Void> set(Map<ByteBuffer, ByteBuffer> values, Callback<Void> callback) {
        if (values.containsValue(null)) {
            return worker.set(values, callback);
        }
        open.putAll(values);
        callback.onCompletion(null, null);
        return CompletableFuture.completedFuture(null);
    }

    /** Copies what the transaction that was committed holds, and does not wait. */
    synchronized void committed() {
        if (!open.isEmpty()) {
            worker.set(open, (error, ignored) -> {
                if (error != null) {
                    LOG.warn("Offsets are not copied to the worker's topic", error);
                }
            });
            open = new HashMap<>();
        }
    }

    @Override
    public Future<Map<ByteBuffer, ByteBuffer>> get(Collection<ByteBuffer> keys) {
        return worker.get(keys);
    }

    @Override
    public Set<Map<String, Object>> connectorPartitions(String connector) {
        return worker.connectorPartitions(connector);
    }

    @Override
    public void start() { }

    @Override
    public void stop() { }

    @Override
    public void configure(WorkerConfig config) { }
}
