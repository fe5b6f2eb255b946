package connect.engine;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.kafka.connect.runtime.isolation.DelegatingClassLoader;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.ThreadContext;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory;
import org.apache.logging.log4j.core.selector.BasicContextSelector;

/**
 * Sends log events, and lines that plugins print, as events. Of each second 1,000 are sent for each
 * connector and task; the rest are counted, as a plugin that logs without end must not keep others
 * from being heard. A thread of its own sends, so no plugin waits for the other side.
 */
final class LogLines extends AbstractAppender {
    static final String CONTEXT = "connector.context";
    private static final int A_SECOND = 1_000;
    private static final int SECOND_MS = 1_000;
    private static final int LONGEST = 16_384;
    /** Characters that wait to be sent. */
    private static final int MOST = 8 << 20;

    private final Wire wire;
    private final Queue<Map<String, Object>> waiting = new ArrayDeque<>();
    private final Map<String, Second> seconds = new HashMap<>();
    private int size;

    private LogLines(Wire wire) {
        super("engine", null, null, true, Property.EMPTY_ARRAY);
        this.wire = wire;
    }

    /** The lines of one connector or task in the current second. */
    private static final class Second {
        private int sent;
        private int left;
    }

    /** Takes all logging and both outputs of this JVM. */
    static void redirect(Wire wire) {
        // One for all class loaders: by default Log4j finds it by the caller, which class archives change
        System.setProperty("log4j2.contextSelector", BasicContextSelector.class.getName());
        // What threads of plugins log is their task's
        System.setProperty("log4j2.isThreadContextMapInheritable", "true");
        LogLines lines = new LogLines(wire);
        lines.start();
        var builder = ConfigurationBuilderFactory.newConfigurationBuilder();
        builder.add(builder.newRootLogger(Level.INFO));
        // Two lines for each plugin, in each JVM: GET /connector-plugins lists them
        builder.add(builder.newLogger(DelegatingClassLoader.class.getName(), Level.WARN));
        LoggerContext context = Configurator.initialize(builder.build());
        context.getConfiguration().addAppender(lines);
        context.getRootLogger().addAppender(lines);
        System.setOut(new PrintStream(lines.new Printed("stdout"), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(lines.new Printed("stderr"), true, StandardCharsets.UTF_8));
        Thread thread = new Thread(lines::sendAll, "engine-log");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void append(LogEvent event) {
        String context = event.getContextData().getValue(CONTEXT);
        if (!isWanted(context)) {
            return;
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("level", event.getLevel().name());
        fields.put("logger", event.getLoggerName());
        fields.put("context", context);
        fields.put("text", cut(event.getMessage().getFormattedMessage()));
        if (event.getThrown() != null) {
            fields.put("trace", Failure.of(event.getThrown()).trace());
        }
        add(fields);
    }

    private void print(String name, String line) {
        String context = ThreadContext.get(CONTEXT);
        if (isWanted(context)) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("level", "INFO");
            fields.put("logger", name);
            fields.put("context", context);
            fields.put("text", line);
            add(fields);
        }
    }

    private static String cut(String text) {
        return text.length() <= LONGEST
                ? text
                : text.substring(0, LONGEST) + "... (" + text.length() + " characters)";
    }

    private boolean isWanted(String context) {
        synchronized (waiting) {
            Second second = seconds.computeIfAbsent(String.valueOf(context), name -> new Second());
            boolean wanted = second.sent < A_SECOND && size < MOST;
            if (wanted) {
                second.sent++;
            } else {
                second.left++;
            }
            return wanted;
        }
    }

    private void add(Map<String, Object> fields) {
        synchronized (waiting) {
            waiting.add(fields);
            size += sizeOf(fields);
            waiting.notifyAll();
        }
    }

    private static int sizeOf(Map<String, Object> fields) {
        return String.valueOf(fields.get("text")).length() + String.valueOf(fields.get("trace")).length();
    }

    private void sendAll() {
        long next = System.nanoTime();
        while (true) {
            Map<String, Object> fields = null;
            try {
                fields = take();
            } catch (InterruptedException error) {
                // A plugin that interrupts all threads does not end the log.
            }
            if (fields != null) {
                wire.event("log", fields);
            }
            if (System.nanoTime() - next >= 0) {
                next = System.nanoTime() + SECOND_MS * 1_000_000L;
                leftOut().forEach(left -> wire.event("log-lines-left-out", left));
            }
        }
    }

    /** Returns the next line, once there is one; null after a second without. */
    private Map<String, Object> take() throws InterruptedException {
        synchronized (waiting) {
            if (waiting.isEmpty()) {
                waiting.wait(SECOND_MS);
            }
            Map<String, Object> fields = waiting.poll();
            size -= fields == null ? 0 : sizeOf(fields);
            return fields;
        }
    }

    /** Begins the next second, and returns what was left out in the last one. */
    private List<Map<String, Object>> leftOut() {
        List<Map<String, Object>> left = new ArrayList<>();
        synchronized (waiting) {
            seconds.forEach((context, second) -> {
                if (second.left > 0) {
                    left.add(Map.of("context", context, "count", second.left));
                }
            });
            seconds.clear();
        }
        return left;
    }

    /** Lines that a plugin prints. */
    private final class Printed extends OutputStream {
        private final String name;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        Printed(String name) {
            this.name = name;
        }

        @Override
        public synchronized void write(int character) {
            if (character != '\n') {
                line.write(character);
            }
            if (character == '\n' || line.size() >= LONGEST) {
                String text = line.toString(StandardCharsets.UTF_8);
                line.reset();
                print(name, text);
            }
        }
    }
}
