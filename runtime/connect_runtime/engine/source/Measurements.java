package connect.engine;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import java.util.regex.Pattern;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;

/**
 * Reads the numbers that Connect, its Kafka clients and the plugins count. Those of plugins are read
 * by plugins' code, which may hang: then the others are read all the same.
 */
final class Measurements {
    private static final String OF_PLUGINS = "plugins";
    private static final String MIRROR = "kafka.connect.mirror";
    private static final Pattern OF_OTHERS =
            Pattern.compile("(JMImplementation|(java|com\\.sun|sun|jdk|org\\.apache\\.logging|kafka)\\b.*)");
    private static final List<String> OF_CLIENTS = List.of(
            "kafka.producer:type=producer-metrics,*",
            "kafka.consumer:type=consumer-metrics,*",
            "kafka.consumer:type=consumer-fetch-manager-metrics,partition=*,*");
    private static final List<String> ATTRIBUTES =
            List.of("connection-count", "outgoing-byte-total", "incoming-byte-total", "records-lag");
    private static final int MOST = 10_000;
    private static final long PATIENCE_MS = 500;

    private final Host host;
    private final Function<ObjectName, Collection<ObjectName>> names;
    private final MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    private final ExecutorService reader = Executors.newSingleThreadExecutor(run -> {
        Thread thread = new Thread(run, "engine-metrics");
        thread.setDaemon(true);
        return thread;
    });
    private Future<OfPlugins> reading;
    private OfPlugins latest = new OfPlugins(List.of(), 0);

    /** Reads those of one worker; {@code names} returns those of its MBeans that match a pattern. */
    Measurements(Host host, Function<ObjectName, Collection<ObjectName>> names) {
        this.host = host;
        this.names = names;
    }

    /** Ends the thread that reads. */
    void close() {
        reader.shutdown();
    }

    /** A number: of Connect's own metrics by group and tags, of an MBean by domain and key properties. */
    record Measurement(String group, String name, Map<String, String> tags, double value) { }

    /** The first 10,000 numbers of plugins, and how many there are besides. */
    record OfPlugins(List<Measurement> measurements, int left) { }

    /** All numbers of a worker but the JVM's own; {@code clients} are those of Kafka's clients. */
    record All(List<Measurement> connect, List<Measurement> clients, OfPlugins plugins) { }

    /** Returns all numbers. Those of plugins are older ones while their code takes long. */
    All read() throws InterruptedException {
        Collected connect = new Collected();
        connectMetrics(false).forEach(connect::add);
        Collected clients = new Collected();
        for (String pattern : OF_CLIENTS) {
            for (ObjectName bean : names(pattern)) {
                ATTRIBUTES.forEach(attribute -> clients.add(bean, attribute));
            }
        }
        return new All(connect.measurements, clients.measurements, ofPlugins());
    }

    private synchronized OfPlugins ofPlugins() throws InterruptedException {
        if (reading == null) {
            reading = reader.submit(this::readPlugins);
        }
        try {
            latest = reading.get(PATIENCE_MS, TimeUnit.MILLISECONDS);
            reading = null;
        } catch (TimeoutException hangs) {
            // The next call looks again.
        } catch (ExecutionException error) {
            reading = null;
        }
        return latest;
    }

    private OfPlugins readPlugins() {
        Collected collected = new Collected();
        connectMetrics(true).forEach(collected::add);
        for (ObjectName bean : names("*:*")) {
            String domain = bean.getDomain();
            if (domain.equals(MIRROR) || !OF_OTHERS.matcher(domain).matches()) {
                collected.add(bean);
            }
        }
        return new OfPlugins(collected.measurements, collected.left);
    }

    private List<KafkaMetric> connectMetrics(boolean ofPlugins) {
        return host.worker.metrics().metrics().metrics().values().stream()
                .filter(metric -> ofPlugins == metric.metricName().group().equals(OF_PLUGINS))
                .toList();
    }

    private Iterable<ObjectName> names(String pattern) {
        try {
            return names.apply(new ObjectName(pattern));
        } catch (JMException impossible) {
            throw new IllegalArgumentException(impossible);
        }
    }

    /** Collects numbers, as many as one page can hold. */
    private final class Collected {
        private final List<Measurement> measurements = new ArrayList<>();
        private int left;

        void add(KafkaMetric metric) {
            try {
                MetricName name = metric.metricName();
                add(name.group(), name.name(), name.tags(), metric.metricValue());
            } catch (RuntimeException unknown) {
                // The worker's counts by state ask for statuses, which this JVM does not keep.
            }
        }

        void add(ObjectName bean) {
            if (measurements.size() >= MOST) {
                left++;
                return;
            }
            try {
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
                    add(bean, attribute.getName());
                }
            } catch (JMException | RuntimeException gone) {
                // A plugin that stops takes its beans along; one that throws has no numbers.
            }
        }

        void add(ObjectName bean, String attribute) {
            try {
                add(bean.getDomain(), attribute, tags(bean), beans.getAttribute(bean, attribute));
            } catch (JMException | RuntimeException absent) {
                // Another attribute may have a number.
            }
        }

        private void add(String group, String name, Map<String, String> tags, Object value) {
            double number = value instanceof Number given ? given.doubleValue()
                    : value instanceof Boolean flag ? (flag ? 1 : 0)
                    : Double.NaN;
            if (!Double.isFinite(number)) {
                return;
            }
            if (measurements.size() < MOST) {
                measurements.add(new Measurement(group, name, tags, number));
            } else {
                left++;
            }
        }

        private Map<String, String> tags(ObjectName bean) {
            Map<String, String> tags = new TreeMap<>();
            bean.getKeyPropertyList().forEach((key, value) ->
                    tags.put(key, value.startsWith("\"") ? ObjectName.unquote(value) : value));
            return tags;
        }
    }
}
