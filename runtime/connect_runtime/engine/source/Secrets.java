package connect.engine;

import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Values that no text may hold. Every process that this JVM works for hears of each, before any text
 * that may quote it, and redacts it from whatever follows.
 */
final class Secrets {
    private final Set<String> values = new HashSet<>();
    private final Set<Wire> wires = new HashSet<>();

    /** Names all values to a further process, and those to come. */
    synchronized void add(Wire wire) {
        wires.add(wire);
        if (!values.isEmpty()) {
            name(wire, values);
        }
    }

    synchronized void remove(Wire wire) {
        wires.remove(wire);
    }

    synchronized void report(Collection<String> secrets) {
        List<String> fresh = secrets.stream().filter(values::add).toList();
        if (!fresh.isEmpty()) {
            wires.forEach(wire -> name(wire, fresh));
        }
    }

    private static void name(Wire wire, Collection<String> secrets) {
        wire.event("secrets", Map.of("values", secrets));
    }
}
