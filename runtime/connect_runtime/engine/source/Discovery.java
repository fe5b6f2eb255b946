package connect.engine;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import java.net.MalformedURLException;
import java.sql.Driver;
import java.util.AbstractSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginDiscoveryMode;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginSource;
import org.apache.kafka.connect.runtime.isolation.PluginType;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The plugins that this JVM can use, and how they were found: on all of {@code plugin.path} as
 * {@code plugin.discovery} says, or by an earlier scan. {@code drivers} is complete once the JDBC drivers
 * beside them are registered, which takes a while.
 */
record Discovery(Plugins plugins, PluginScanResult found, CompletableFuture<Void> drivers) {
    private static final Logger LOG = LoggerFactory.getLogger(Discovery.class);
    /** Plugins that are known, as JSON; the worker's file does not have this property. */
    private static final String KNOWN = "java.plugins.known";
    /** Locations on plugin.path that are not looked at, a line each. */
    private static final String LEFT_OUT = "java.plugins.left.out";
    private static final TypeReference<Map<String, List<Known>>> BY_LOCATION = new TypeReference<>() { };

    /** A plugin of a location, with the name of its type. */
    record Known(String name, String type, String version) { }

    /**
     * Finds the plugins of a worker, which takes seconds if all classes are looked at; those that are
     * known are loaded, and none is made.
     *
     * @param begins gets each location before it is looked at, which runs code of its classes
     */
    static Discovery of(Map<String, String> worker, Consumer<String> begins) {
        // The superclass's constructor calls the method below, before this class could have fields.
        AtomicReference<PluginScanResult> found = new AtomicReference<>();
        AtomicReference<CompletableFuture<Void>> drivers =
                new AtomicReference<>(CompletableFuture.completedFuture(null));
        Map<String, List<Known>> known = known(worker.remove(KNOWN));
        Set<String> leftOut = lines(worker.remove(LEFT_OUT));
        Plugins plugins = new Plugins(worker) {
            @Override
            public PluginScanResult initLoaders(Set<PluginSource> sources, PluginDiscoveryMode mode) {
                if (known == null) {
                    found.set(super.initLoaders(new Reported(without(leftOut, sources), begins), mode));
                } else {
                    Set<PluginSource> places = at(known.keySet(), sources);
                    found.set(new PluginScanResult(
                            places.stream().map(place -> loaded(known.get(location(place)), place)).toList()));
                    drivers.set(CompletableFuture.runAsync(() -> places.forEach(Discovery::registerDrivers)));
                    delegatingLoader().installDiscoveredPlugins(found.get());
                }
                return found.get();
            }
        };
        return new Discovery(plugins, found.get(), drivers.get());
    }

    private static Map<String, List<Known>> known(String text) {
        try {
            return text == null ? null : Wire.JSON.readValue(text, BY_LOCATION);
        } catch (JsonProcessingException error) {
            throw new IllegalArgumentException(error);
        }
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

    /** Loads what is known of a place; none is made before a task uses it. */
    private static PluginScanResult loaded(List<Known> known, PluginSource place) {
        return new PluginScanResult(
                of(PluginType.SINK, known, place),
                of(PluginType.SOURCE, known, place),
                of(PluginType.CONVERTER, known, place),
                of(PluginType.HEADER_CONVERTER, known, place),
                of(PluginType.TRANSFORMATION, known, place),
                of(PluginType.PREDICATE, known, place),
                of(PluginType.CONFIGPROVIDER, known, place),
                of(PluginType.REST_EXTENSION, known, place),
                of(PluginType.CONNECTOR_CLIENT_CONFIG_OVERRIDE_POLICY, known, place));
    }

    @SuppressWarnings("unchecked")
    private static <T> SortedSet<PluginDesc<T>> of(PluginType type, List<Known> known, PluginSource place) {
        SortedSet<PluginDesc<T>> plugins = new TreeSet<>();
        for (Known plugin : known) {
            if (plugin.type.equals(type.toString().toLowerCase(Locale.ROOT))) {
                try {
                    Class<?> loaded = Class.forName(plugin.name, false, place.loader());
                    plugins.add(new PluginDesc<>((Class<? extends T>) loaded, plugin.version, type, place.loader()));
                } catch (ClassNotFoundException | LinkageError changed) {
                    LOG.error("{} of {} cannot be loaded any more", plugin.name, place, changed);
                }
            }
        }
        return plugins;
    }

    /** Does for a place what {@code java.sql.DriverManager} does for the class path, as a scan does. */
    private static void registerDrivers(PluginSource place) {
        try {
            ServiceLoader.load(Driver.class, place.loader()).forEach(driver -> { });
        } catch (Throwable unusable) {
            LOG.debug("A JDBC driver of {} is not registered", place, unusable);
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
