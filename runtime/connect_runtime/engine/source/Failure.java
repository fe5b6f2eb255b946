package connect.engine;

import java.io.PrintWriter;
import java.io.Writer;
import org.apache.kafka.connect.runtime.rest.errors.ConnectRestException;

/**
 * An exception as the other side gets it, which redacts it.
 *
 * @param type the class's name
 * @param status the HTTP status that Apache's worker answers with, 500 unless the exception has one
 * @param trace the stack trace as Apache's worker writes it into a status
 */
record Failure(String type, String message, int status, String trace) {
    /** Returns the exception's failure. */
    static Failure of(Throwable thrown) {
        int status = thrown instanceof ConnectRestException rest ? rest.statusCode() : 500;
        return new Failure(thrown.getClass().getName(), thrown.getMessage(), status, trace(thrown));
    }

    private static String trace(Throwable thrown) {
        Beginning text = new Beginning();
        try {
            thrown.printStackTrace(new PrintWriter(text));
        } catch (RuntimeException error) {
            return thrown.getClass().getName() + " (its trace cannot be shown: " + error.getClass().getName() + ")";
        }
        return text.toString();
    }

    /** Keeps the beginning of a text: causes of causes can be endless. */
    private static final class Beginning extends Writer {
        private static final int LONGEST = 65_536;
        private final StringBuilder text = new StringBuilder();
        private long size;

        @Override
        public void write(char[] characters, int offset, int length) {
            size += length;
            text.append(characters, offset, Math.min(length, LONGEST - text.length()));
        }

        @Override
        public String toString() {
            return size <= LONGEST ? text.toString() : text + "... (" + size + " characters)";
        }

        @Override
        public void flush() { }

        @Override
        public void close() { }
    }
}
