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
    /** Returns the exception's failure, also of one of a plugin that throws when it is asked for its texts. */
    static Failure of(Throwable thrown) {
        int status = thrown instanceof ConnectRestException rest ? rest.statusCode() : 500;
        return new Failure(thrown.getClass().getName(), message(thrown), status, trace(thrown));
    }

    private static String message(Throwable thrown) {
        Beginning text = new Beginning();
        try {
            String message = thrown.getMessage();
            if (message == null) {
                return null;
            }
            text.write(message);
        } catch (RuntimeException | StackOverflowError error) {
            return unshown(thrown, "message", error);
        }
        return text.toString();
    }

    private static String trace(Throwable thrown) {
        Beginning text = new Beginning();
        try {
            thrown.printStackTrace(new PrintWriter(text));
        } catch (StackOverflowError endless) {
            return text.toString();
        } catch (RuntimeException error) {
            return unshown(thrown, "trace", error);
        }
        return text.toString();
    }

    private static String unshown(Throwable thrown, String text, Throwable error) {
        return thrown.getClass().getName() + " (its " + text + " cannot be shown: " + error.getClass().getName() + ")";
    }

    /** Keeps the beginning of a text: it can be long, and causes of causes endless. */
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
        public void write(String characters) {
            size += characters.length();
            text.append(characters, 0, Math.min(characters.length(), LONGEST - text.length()));
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
