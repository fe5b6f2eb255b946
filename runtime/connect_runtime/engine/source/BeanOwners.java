package connect.engine;

import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.ObjectName;
import org.apache.logging.log4j.ThreadContext;

/**
 * Remembers which task has registered which MBeans, where several tasks share a JVM: the one whose
 * logging context the registering thread has, or has got from the thread that started it.
 */
final class BeanOwners {
    /** {@code [orders|task-0] }, or {@code [orders|task-0|offsets] } */
    private static final Pattern OF_TASK = Pattern.compile("\\[(.*\\|task-\\d+)(\\|[a-z]+)?\\] ?");
    private final Map<ObjectName, String> tasks = new ConcurrentHashMap<>();
    private final Map<String, Set<ObjectName>> beans = new ConcurrentHashMap<>();

    BeanOwners() {
        try {
            ManagementFactory.getPlatformMBeanServer().addNotificationListener(
                    MBeanServerDelegate.DELEGATE_NAME, (change, unused) -> note(change), null, null);
        } catch (InstanceNotFoundException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Runs on the thread that registers the MBean. */
    private void note(Notification notification) {
        if (notification instanceof MBeanServerNotification change) {
            forget(change.getMBeanName());
            if (change.getType().equals(MBeanServerNotification.REGISTRATION_NOTIFICATION)) {
                remember(change.getMBeanName());
            }
        }
    }

    private void remember(ObjectName bean) {
        Matcher context = OF_TASK.matcher(String.valueOf(ThreadContext.get(LogLines.CONTEXT)));
        if (context.matches()) {
            String task = context.group(1);
            tasks.put(bean, task);
            beans.compute(task, (key, names) -> {
                Set<ObjectName> more = names == null ? ConcurrentHashMap.newKeySet() : names;
                more.add(bean);
                return more;
            });
        }
    }

    private void forget(ObjectName bean) {
        String task = tasks.remove(bean);
        if (task != null) {
            beans.computeIfPresent(task, (key, names) -> {
                names.remove(bean);
                return names.isEmpty() ? null : names;
            });
        }
    }

    /** Returns the names of a task's MBeans. */
    Collection<ObjectName> beansOf(String connector, int task) {
        return beans.getOrDefault(connector + "|task-" + task, Set.of());
    }
}
