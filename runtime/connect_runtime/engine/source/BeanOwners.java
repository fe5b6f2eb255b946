package connect.engine;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServer;
import javax.management.MBeanServerDelegate;
import javax.management.MBeanServerNotification;
import javax.management.Notification;
import javax.management.ObjectName;
import org.apache.logging.log4j.ThreadContext;

/**
 * Remembers which task has registered an MBean, where several tasks share a JVM: whose logging context
 * its thread has, or the thread that started it.
 */
final class BeanOwners {
    private final Map<ObjectName, String> contexts = new ConcurrentHashMap<>();

    BeanOwners() {
        MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
        try {
            beans.addNotificationListener(
                    MBeanServerDelegate.DELEGATE_NAME, (change, unused) -> note(change), null, null);
        } catch (InstanceNotFoundException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Runs on the thread that registers the MBean. */
    private void note(Notification notification) {
        if (notification instanceof MBeanServerNotification change) {
            String context = ThreadContext.get(LogLines.CONTEXT);
            if (!change.getType().equals(MBeanServerNotification.REGISTRATION_NOTIFICATION)) {
                contexts.remove(change.getMBeanName());
            } else if (context != null) {
                contexts.put(change.getMBeanName(), context);
            }
        }
    }

    /** Returns whether a task has registered it. */
    boolean isOf(String connector, int task, ObjectName bean) {
        String begins = "[" + connector + "|task-" + task;
        String context = contexts.getOrDefault(bean, "");
        return context.startsWith(begins + "]") || context.startsWith(begins + "|");
    }
}
