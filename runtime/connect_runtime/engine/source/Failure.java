package connect.engine;

import java.io.PrintWriter;
import java.io.StringWriter;
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
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}
