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
import java.util.concurrent.Future;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.Callback;

/**
 * The worker's offsets, which the other side reads and writes: for connectors, for tasks without
 * transactions, and for those that have an offsets topic of their own and nothing in it yet.
 */
final class OffsetRows implements OffsetBackingStore {
    private final Wire wire;

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
        });
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
    public void stop() { }

    @Override
    public void configure(WorkerConfig config) { }
}
