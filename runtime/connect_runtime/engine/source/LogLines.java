package connect.engine;

import java.io.ByteArrayOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.Appender;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory;

/**
 * Sends log events, and lines that plugins print, as events. Of each second 1,000 are sent; the rest
 * are counted, as a plugin that logs without end must not keep others from being heard.
 */
final class LogLines extends AbstractAppender {
    private static final int A_SECOND = 1_000;

    private final Wire wire;
    private long second;
    private int sent;
    private int left;

    private LogLines(Wire wire) {
        super("engine", null, null, false, Property.EMPTY_ARRAY);
        this.wire = wire;
    }

    /** Takes all logging and both outputs of this JVM. */
    static void redirect(Wire wire) {
        LogLines lines = new LogLines(wire);
        lines.start();
        var builder = ConfigurationBuilderFactory.newConfigurationBuilder();
        builder.add(builder.newRootLogger(Level.INFO));
        LoggerContext context = Configurator.initialize(builder.build());
        context.getConfiguration().addAppender(lines);
        context.getRootLogger().addAppender((Appender) lines);
        System.setOut(new PrintStream(lines.new Printed("stdout"), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(lines.new Printed("stderr"), true, StandardCharsets.UTF_8));
    }

    @Override
    public void append(LogEvent event) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("level", event.getLevel().name());
        fields.put("logger", event.getLoggerName());
        fields.put("context", event.getContextData().getValue("connector.context"));
        fields.put("text", event.getMessage().getFormattedMessage());
        if (event.getThrown() != null) {
            fields.put("trace", Failure.of(event.getThrown()).trace());
        }
        send(fields);
    }

    private void send(Map<String, Object> fields) {
        synchronized (this) {
            long now = System.nanoTime() / 1_000_000_000;
            if (now != second) {
                if (left > 0) {
                    wire.event("log-lines-left-out", Map.of("count", left));
                }
                second = now;
                sent = 0;
                left = 0;
            }
            if (++sent > A_SECOND) {
                left++;
                return;
            }
        }
        wire.event("log", fields);
    }

    /** Lines that a plugin prints. */
    private final class Printed extends OutputStream {
        private static final int LONGEST = 16_384;
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
                send(Map.of("level", "INFO", "logger", name, "text", text));
            }
        }
    }
}
