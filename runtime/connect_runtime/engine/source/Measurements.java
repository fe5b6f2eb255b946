package connect.engine;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;

/** Reads the numbers that Connect and the plugins count. */
final class Measurements {
    private Measurements() { }

    /** A number: of Connect's own metrics by group and tags, of an MBean by domain and key properties. */
    record Measurement(String group, String name, Map<String, String> tags, double value) { }

    /** Returns all numbers of this JVM, without those of Kafka's clients and of the JVM itself. */
    static List<Measurement> read(Host host) {
        List<Measurement> measurements = new ArrayList<>();
        host.worker.metrics().metrics().metrics().values().forEach(metric -> add(metric, measurements));
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName bean : beans.queryNames(null, null)) {
            if (isOfPlugin(bean.getDomain())) {
                read(beans, bean, measurements);
            }
        }
        return measurements;
    }

    private static void add(KafkaMetric metric, List<Measurement> measurements) {
        try {
            if (metric.metricValue() instanceof Number number) {
                MetricName name = metric.metricName();
                measurements.add(new Measurement(name.group(), name.name(), name.tags(), number.doubleValue()));
            }
        } catch (RuntimeException unknown) {
            // The worker's counts by state ask for statuses, which this JVM does not keep.
        }
    }

    private static boolean isOfPlugin(String domain) {
        return domain.startsWith("debezium.") || domain.equals("kafka.connect.mirror");
    }

    private static void read(MBeanServer beans, ObjectName bean, List<Measurement> measurements) {
        try {
            for (MBeanAttributeInfo attribute : beans.getMBeanInfo(bean).getAttributes()) {
                if (beans.getAttribute(bean, attribute.getName()) instanceof Number number) {
                    measurements.add(new Measurement(
                            bean.getDomain(), attribute.getName(),
                            new LinkedHashMap<>(bean.getKeyPropertyList()), number.doubleValue()));
                }
            }
        } catch (JMException | RuntimeException gone) {
            // A plugin that stops takes its beans along; one that throws has no numbers.
        }
    }
}
