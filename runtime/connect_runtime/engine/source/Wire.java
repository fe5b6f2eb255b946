package connect.engine;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The socket to the process that started this JVM. A frame is its length in 4 bytes, big-endian, and
 * a JSON object. Both sides send requests ({@code id}, {@code call} and arguments), answers to them
 * ({@code answer}, and {@code result} or {@code error}), and this side also events ({@code event}).
 * {@code docs/engine-protocol.md} lists them all.
 */
final class Wire {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int LONGEST = 256 << 20;

    private final DataInputStream input;
    private final DataOutputStream output;
    private final AtomicLong lastId = new AtomicLong();
    private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private final ExecutorService calls = Executors.newCachedThreadPool(Wire::daemon);

    /** Answers one kind of request. */
    interface Call {
        /** Returns the result, which Jackson writes as JSON; what it throws is the error. */
        Object answer(JsonNode arguments) throws Exception;
    }

    /** Uses file descriptor 0, which is a socket: a path or port would have to be kept secret. */
    Wire() {
        this.input = new DataInputStream(new FileInputStream(FileDescriptor.in));
        this.output = new DataOutputStream(new FileOutputStream(FileDescriptor.in));
    }

    private static Thread daemon(Runnable run) {
        Thread thread = new Thread(run, "engine-call");
        thread.setDaemon(true);
        return thread;
    }

    /** Answers requests, each on a thread of its own, until the other side has closed the socket, or is gone. */
    void serve(Map<String, Call> handlers) {
        while (true) {
            JsonNode frame;
            try {
                frame = read();
            } catch (IOException ended) {
                // Also a reset: the other side ended without reading all that it was sent.
                return;
            }
            if (frame.has("answer")) {
                CompletableFuture<JsonNode> future = waiting.remove(frame.get("answer").asLong());
                if (future != null) {
                    future.complete(frame);
                }
            } else {
                calls.submit(() -> answer(handlers, frame));
            }
        }
    }

    private JsonNode read() throws IOException {
        int length = input.readInt();
        if (length < 0 || length > LONGEST) {
            throw new IOException("a frame of " + length + " bytes");
        }
        byte[] bytes = new byte[length];
        input.readFully(bytes);
        return JSON.readTree(bytes);
    }

    private void answer(Map<String, Call> handlers, JsonNode frame) {
        ObjectNode reply = JSON.createObjectNode().put("answer", frame.get("id").asLong());
        try {
            Call call = handlers.get(frame.get("call").asText());
            if (call == null) {
                throw new IllegalArgumentException("Unknown call " + frame.get("call"));
            }
            reply.set("result", JSON.valueToTree(call.answer(frame)));
        } catch (Throwable thrown) {
            reply.set("error", JSON.valueToTree(Failure.of(thrown)));
        }
        send(reply);
    }

    /** Sends an event; {@code fields} become its further keys. */
    void event(String name, Map<String, ?> fields) {
        ObjectNode event = JSON.createObjectNode().put("event", name);
        event.setAll((ObjectNode) JSON.valueToTree(fields));
        send(event);
    }

    /** Returns the answer to a request. Throws IllegalStateException with the text of an error. */
    JsonNode ask(String call, Map<String, ?> fields) throws InterruptedException {
        long id = lastId.incrementAndGet();
        CompletableFuture<JsonNode> future = new CompletableFuture<>();
        waiting.put(id, future);
        ObjectNode request = JSON.createObjectNode().put("id", id).put("call", call);
        request.setAll((ObjectNode) JSON.valueToTree(fields));
        send(request);
        JsonNode answer;
        try {
            answer = future.get();
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
        if (answer.has("error")) {
            throw new IllegalStateException(answer.get("error").asText());
        }
        return answer.path("result");
    }

    private void send(ObjectNode frame) {
        try {
            // Half of a surrogate pair, which a text of a plugin may hold, becomes a question mark
            byte[] bytes = JSON.writeValueAsString(frame).getBytes(StandardCharsets.UTF_8);
            synchronized (output) {
                output.writeInt(bytes.length);
                output.write(bytes);
                output.flush();
            }
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        } catch (IOException gone) {
            // The process that this JVM works for is gone.
            Runtime.getRuntime().halt(0);
        }
    }
}
