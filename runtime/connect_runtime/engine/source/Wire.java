package connect.engine;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A socket to a process that this JVM works for. A frame is its length in 4 bytes, big-endian, and
 * a JSON object. Both sides send requests ({@code id}, {@code call} and arguments), answers to them
 * ({@code answer}, and {@code result} or {@code error}), and this side also events ({@code event}).
 * {@code docs/engine-protocol.md} lists them all.
 */
final class Wire {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int LONGEST = 256 << 20;

    private final DataInputStream input;
    private final OutputStream output;
    private final Runnable close;
    private final AtomicLong lastId = new AtomicLong();
    private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private final ExecutorService calls = Executors.newCachedThreadPool(Wire::daemon);
    private volatile boolean closed;

    /** Answers one kind of request. */
    interface Call {
        /** Returns the result, which Jackson writes as JSON; what it throws is the error. */
        Object answer(JsonNode arguments) throws Exception;
    }

    /** Uses streams of a socket. {@code close} runs when nothing can be sent any more, perhaps twice. */
    Wire(InputStream input, OutputStream output, Runnable close) {
        this.input = new DataInputStream(input);
        this.output = output;
        this.close = close;
    }

    /**
     * Returns the socket to the process that started this JVM, which ends with it: file descriptor 0,
     * as a path or port would have to be kept secret.
     */
    static Wire toOwner() {
        // Not exit: hooks of plugins may hang, and the process that would end this one is gone.
        return new Wire(
                new FileInputStream(FileDescriptor.in), new FileOutputStream(FileDescriptor.in),
                () -> Runtime.getRuntime().halt(0));
    }

    private static Thread daemon(Runnable run) {
        Thread thread = new Thread(run, "engine-call");
        thread.setDaemon(true);
        return thread;
    }

    /** Answers requests, each on a thread of its own, until the other side has closed the socket, or is gone. */
    void serve(Map<String, Call> handlers) {
        try {
            serveOpen(handlers);
        } finally {
            calls.shutdown();
            closed = true;
            waiting.values().forEach(Wire::refuse);
        }
    }

    private void serveOpen(Map<String, Call> handlers) {
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

    /** Returns the next frame. */
    JsonNode read() throws IOException {
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
        if (closed) {
            refuse(future);
        }
        ObjectNode request = JSON.createObjectNode().put("id", id).put("call", call);
        request.setAll((ObjectNode) JSON.valueToTree(fields));
        send(request);
        JsonNode answer;
        try {
            answer = future.get();
        } catch (ExecutionException gone) {
            throw new IllegalStateException(gone.getCause());
        }
        if (answer.has("error")) {
            throw new IllegalStateException(answer.get("error").asText());
        }
        return answer.path("result");
    }

    private static void refuse(CompletableFuture<JsonNode> future) {
        future.completeExceptionally(new IOException("The process that this JVM worked for is gone"));
    }

    private void send(ObjectNode frame) {
        try {
            // Half of a surrogate pair, which a text of a plugin may hold, becomes a question mark
            byte[] bytes = JSON.writeValueAsString(frame).getBytes(StandardCharsets.UTF_8);
            ByteBuffer whole = ByteBuffer.allocate(Integer.BYTES + bytes.length).putInt(bytes.length).put(bytes);
            synchronized (output) {
                output.write(whole.array());
            }
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        } catch (IOException gone) {
            close.run();
        }
    }
}
