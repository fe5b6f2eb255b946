package connect.engine;

import java.net.MalformedURLException;
import java.util.AbstractSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.isolation.ReflectionScanner;
import org.apache.kafka.connect.runtime.isolation.ServiceLoaderScanner;

/**
 * The plugins that this JVM can use, and how they were found: on all of {@code plugin.path} as
 * {@code plugin.discovery} says, or in the places that an earlier scan has named.
 */
record Discovery(Plugins plugins, PluginScanResult found) {
    /** Locations, a line each, that are loaded; the worker's file does not have this property. */
    private static final String LOADED = "java.plugins.loaded";
    /** Those of them whose classes are looked at, as some have no manifest. */
    private static final String SCANNED = "java.plugins.scanned";
    /** Locations on plugin.path that are not looked at. */
    private static final String LEFT_OUT = "java.plugins.left.out";

    /**
     * Finds the plugins of a worker, which takes seconds if all classes are looked at.
     *
     * @param begins gets each location before it is looked at, which runs code of its classes
     */
    static Discovery of(Map<String, String> worker, Consumer<String> begins) {
        // The superclass's constructor calls the method below, before this class could have fields.
        AtomicReference<PluginScanResult> found = new AtomicReference<>();
        Set<String> loaded = lines(worker.remove(LOADED));
        Set<String> scanned = lines(worker.remove(SCANNED));
        Set<String> leftOut = lines(worker.remove(LEFT_OUT));
        Plugins plugins = new Plugins(worker) {
            @Override
            public PluginScanResult initLoaders(Set<PluginSource> sources, PluginDiscoveryMode mode) {
                if (loaded == null) {
                    found.set(super.initLoaders(new Reported(without(leftOut, sources), begins), mode));
                } else {
                    found.set(new PluginScanResult(List.of(
                            new ReflectionScanner().discoverPlugins(at(scanned, sources)),
                            new ServiceLoaderScanner().discoverPlugins(at(loaded, sources)))));
                    delegatingLoader().installDiscoveredPlugins(found.get());
                }
                return found.get();
            }
        };
        return new Discovery(plugins, found.get());
    }

    private static Set<String> lines(String text) {
        return text == null ? null : text.lines().collect(Collectors.toSet());
    }

    private static Set<PluginSource> at(Set<String> locations, Set<PluginSource> sources) {
        return sources.stream()
                .filter(source -> locations.contains(location(source)))
                .collect(Collectors.toSet());
    }

    private static Set<PluginSource> without(Set<String> locations, Set<PluginSource> sources) {
        return locations == null
                ? sources
                : sources.stream()
                        .filter(source -> !locations.contains(location(source)))
                        .collect(Collectors.toSet());
    }

    private static String location(PluginSource source) {
        try {
            return source.isolated() ? source.location().toUri().toURL().toString() : "classpath";
        } catch (MalformedURLException error) {
            throw new IllegalArgumentException(error);
        }
    }

    /** Sources each of which is reported before a scanner gets it. */
    private static final class Reported extends AbstractSet<PluginSource> {
        private final Set<PluginSource> sources;
        private final Consumer<String> begins;

        Reported(Set<PluginSource> sources, Consumer<String> begins) {
            this.sources = sources;
            this.begins = begins;
        }

        @Override
        public Iterator<PluginSource> iterator() {
            Iterator<PluginSource> all = sources.iterator();
            return new Iterator<>() {
                @Override
                public boolean hasNext() {
                    return all.hasNext();
                }

                @Override
                public PluginSource next() {
                    PluginSource source = all.next();
                    begins.accept(location(source));
                    return source;
                }
            };
        }

        @Override
        public int size() {
            return sources.size();
        }
    }
}
