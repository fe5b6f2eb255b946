package connect.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.Callback;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The worker's offsets, which the other side reads and writes: for connectors, for tasks without
 * transactions, and for those that have an offsets topic of their own and nothing in it yet.
 */
final class OffsetRows implements OffsetBackingStore {
    private static final Logger LOG = LoggerFactory.getLogger(OffsetRows.class);
    private static final long PATIENCE_S = 5;
    private final Wire wire;
    /** A write begins when the one before has ended, or an older offset could be the last one. */
    private final ExecutorService inOrder = Executors.newSingleThreadExecutor(run -> {
        Thread thread = new Thread(run, "write-offsets");
        thread.setDaemon(true);
        return thread;
    });

    OffsetRows(Wire wire) {
        this.wire = wire;
    }

    @Override
    public Future<Map<ByteBuffer, ByteBuffer>> get(Collection<ByteBuffer> keys) {
        CompletableFuture<Map<ByteBuffer, ByteBuffer>> future = new CompletableFuture<>();
        try {
            future.complete(read(List.copyOf(keys)));
        } catch (Exception error) {
            future.completeExceptionally(error);
        }
        return future;
    }

    private Map<ByteBuffer, ByteBuffer> read(List<ByteBuffer> keys) throws IOException, InterruptedException {
        if (keys.isEmpty()) {
            return Map.of();
        }
        // A key is the connector's name and the partition.
        String connector = Wire.JSON.readTree(keys.get(0).array()).get(0).asText();
        JsonNode values = wire.ask(
                "offsets", Map.of("connector", connector, "keys", keys.stream().map(OffsetRows::text).toList()));
        Map<ByteBuffer, ByteBuffer> rows = new HashMap<>();
        for (int i = 0; i < keys.size(); i++) {
            JsonNode value = values.get(i);
            rows.put(keys.get(i), value.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(value.asText())));
        }
        return rows;
    }

    @Override
    public Future<Void> set(Map<ByteBuffer, ByteBuffer> values, Callback<Void> callback) {
        List<List<String>> rows = new ArrayList<>();
        values.forEach((key, value) -> {
            List<String> row = new ArrayList<>();
            row.add(text(key));
            row.add(value == null ? null : text(value));
            rows.add(row);
        });
        // The caller waits, with a limit: it must not wait here.
        return CompletableFuture.runAsync(() -> {
            try {
                wire.ask("write-offsets", Map.of("rows", rows));
                callback.onCompletion(null, null);
            } catch (Exception error) {
                callback.onCompletion(error, null);
                throw new IllegalStateException(error);
            }
        }, inOrder);
    }

    /** Returns once the writes that have begun have ended, or after a while. */
    void awaitWrites() {
        try {
            CompletableFuture.runAsync(() -> { }, inOrder).get(PATIENCE_S, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException error) {
            LOG.warn("Offsets are not written yet", error);
        }
    }

    private static String text(ByteBuffer bytes) {
        return Base64.getEncoder().encodeToString(bytes.array());
    }

    @Override
    public Set<Map<String, Object>> connectorPartitions(String connector) {
        return Set.of();
    }

    @Override
    public void start() { }

    @Override
    public void stop() {
        inOrder.shutdown();
    }

    @Override
    public void configure(WorkerConfig config) { }
}
