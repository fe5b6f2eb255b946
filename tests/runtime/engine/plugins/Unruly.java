package tests;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URISyntaxException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source that does something wrong, {@code how}, in the method that its config names, {@code where}. */
public class Unruly extends SourceConnector {
    private Map<String, String> config;

    private static void misbehave(Map<String, String> config, String where) {
        if (where.equals(config.get("where"))) {
            try {
                misbehave(config.get("how"));
            } catch (InterruptedException | IOException error) {
                throw new ConnectException(error);
            }
        }
    }

    private static void misbehave(String how) throws InterruptedException, IOException {
        if (how.startsWith("writes ")) {
            Files.write(Path.of(how.substring("writes ".length())), new byte[0]);
            return;
        }
        if (how.startsWith("fails as its JVM ends, once: ")) {
            failAsTheJvmEnds(Path.of(how.substring(how.indexOf(": ") + 2)));
            return;
        }
        switch (how) {
            case "hangs" -> forever();
            case "loops" -> {
                while (true) {
                    Thread.onSpinWait();
                }
            }
            case "exits" -> System.exit(7);
            case "exits, and a hook hangs" -> {
                Runtime.getRuntime().addShutdownHook(new Thread(Unruly::forever));
                System.exit(7);
            }
            case "exits, and a hook hangs and interrupts" -> {
                Runtime.getRuntime().addShutdownHook(new Thread(Unruly::interruptAll));
                System.exit(7);
            }
            case "takes the heap" -> {
                List<byte[]> all = new ArrayList<>();
                while (true) {
                    all.add(new byte[8 << 20]);
                }
            }
            case "takes direct memory" -> {
                List<ByteBuffer> all = new ArrayList<>();
                while (true) {
                    all.add(ByteBuffer.allocateDirect(64 << 20));
                }
            }
            case "takes threads" -> new Thread(null, () -> { }, "huge", 1L << 46).start();
            case "leaves a thread" -> new Thread(Unruly::forever).start();
            case "closes its outputs" -> {
                System.out.close();
                System.err.close();
                System.in.close();
                new FileOutputStream(FileDescriptor.out).close();
            }
            case "floods" -> flood();
            case "leaves a process" -> {
                new ProcessBuilder("sleep", "60").inheritIO().start();
                Runtime.getRuntime().halt(7);
            }
            case "interrupts itself" -> Thread.currentThread().interrupt();
            case "throws what cannot be shown" -> throw new Unshown();
            default -> throw new ConnectException("It cannot be " + how);
        }
    }

    /** As one whose connections a hook closes does; the hook takes a while. */
    private static void failAsTheJvmEnds(Path once) throws InterruptedException, IOException {
        if (Files.exists(once)) {
            return;
        }
        CountDownLatch ends = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ends.countDown();
            try {
                Thread.sleep(2_000);
            } catch (InterruptedException error) {
                // then it takes none
            }
        }));
        Files.write(once, new byte[0]);
        ends.await();
        throw new ConnectException("Its connections are closed");
    }

    private static void interruptAll() {
        while (true) {
            Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> thread != Thread.currentThread())
                    .forEach(Thread::interrupt);
            Thread.onSpinWait();
        }
    }

    /** An exception without a text, and with causes without end. */
    private static final class Unshown extends RuntimeException {
        private static final long serialVersionUID = 1L;

        @Override
        public String getMessage() {
            throw new IllegalStateException("it has none");
        }

        @Override
        public String toString() {
            return "Unshown";
        }

        @Override
        public synchronized Throwable getCause() {
            return new Unshown();
        }
    }

    /** Prints without end: lines, and bytes without one. */
    private static void flood() throws IOException {
        Thread thread = new Thread(() -> {
            try (FileOutputStream raw = new FileOutputStream(FileDescriptor.out)) {
                byte[] bytes = "x".repeat(1 << 20).getBytes();
                while (true) {
                    raw.write(bytes);
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
        Thread lines = new Thread(() -> {
            while (true) {
                System.out.println("a line of a flood");
            }
        });
        lines.setDaemon(true);
        lines.start();
    }

    private static void forever() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException error) {
                // it is not to be stopped
            }
        }
    }

    @Override
    public void start(Map<String, String> config) {
        this.config = config;
        misbehave(config, "start");
        if ("monitor".equals(config.get("where"))) {
            context.raiseError(new ConnectException("Its table is gone"));
        }
    }

    @Override
    public Class<? extends Task> taskClass() {
        return UnrulyTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        misbehave(config, "taskConfigs");
        return List.of(config);
    }

    @Override
    public void stop() {
        misbehave(config, "stop");
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic");
    }

    @Override
    public Config validate(Map<String, String> config) {
        misbehave(config, "validate");
        return super.validate(config);
    }

    @Override
    public String version() {
        return "1.0";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        misbehave(config, "alterOffsets");
        return true;
    }

    /** One whose keys are not known while there is a file {@code hold} beside its jar. */
    public static class Slow extends Unruly {
        private static Path beside(String name) {
            try {
                return Path.of(Slow.class.getProtectionDomain().getCodeSource().getLocation().toURI())
                        .resolveSibling(name);
            } catch (URISyntaxException impossible) {
                throw new IllegalStateException(impossible);
            }
        }

        private static void note(String name) {
            try {
                Files.write(beside(name), new byte[0]);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public ConfigDef config() {
            while (Files.exists(beside("hold"))) {
                note("asked");
                try {
                    Thread.sleep(50);
                } catch (InterruptedException error) {
                    throw new ConnectException(error);
                }
            }
            return super.config();
        }

        @Override
        public void start(Map<String, String> config) {
            note("started");
            super.start(config);
        }
    }

    /** Counts from one, a record in each poll. */
    public static class UnrulyTask extends SourceTask {
        private Map<String, String> config;
        private long count;

        @Override
        public String version() {
            return "1.0";
        }

        @Override
        public void start(Map<String, String> config) {
            this.config = config;
            misbehave(config, "task.start");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(100);
            if (++count == 2) {
                misbehave(config, "task.poll");
                Thread.sleep(1);
            }
            return List.of(new SourceRecord(
                    Map.of(), Map.of("count", count), config.get("topic"), Schema.STRING_SCHEMA, "" + count));
        }

        @Override
        public void stop() {
            misbehave(config, "task.stop");
        }
    }
}
