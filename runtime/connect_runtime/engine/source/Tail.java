package connect.engine;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.Worker;
import org.apache.kafka.connect.storage.ConnectorOffsetBackingStore;
import org.apache.kafka.connect.storage.KafkaOffsetBackingStore;
import org.apache.kafka.connect.storage.OffsetBackingStore;
import org.apache.kafka.connect.util.Callback;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.connect.util.KafkaBasedLog;
import org.apache.kafka.connect.util.TopicAdmin;

/**
 * A connector's rows of an offsets topic, and the positions up to which they are known: a task that
 * gets them reads the topic from there, not from its beginning. So its start depends neither on the
 * topic's size nor on open transactions of others before these positions.
 *
 * @param rows pairs of key and value, base64
 * @param positions of each partition the offset of the first record that {@code rows} may lack, as
 *     a consumer of committed records sees it: never after a record of an open transaction
 * @param own the task has an offsets topic of its own, which lies over the worker's with these rows
 */
record Tail(List<List<String>> rows, Map<Integer, Long> positions, boolean own) {
    /** Fields of Apache's classes that no method leads to. */
    private static final List<Field> FIELDS = List.of(
            field(Worker.class, "tasks"),
            field(ofConnect("AbstractWorkerSourceTask"), "offsetStore"),
            field(ofConnect("AbstractWorkerSourceTask"), "admin"),
            field(ofConnect("AbstractWorkerSourceTask"), "producer"),
            field(ConnectorOffsetBackingStore.class, "connectorStore"),
            field(ConnectorOffsetBackingStore.class, "workerStore"),
            field(KafkaOffsetBackingStore.class, "offsetLog"),
            field(KafkaOffsetBackingStore.class, "consumedCallback"),
            field(KafkaBasedLog.class, "initializer"),
            field(KafkaBasedLog.class, "topic"));

    /** Returns a class that only Connect's own package can name. */
    static Class<?> ofConnect(String name) {
        try {
            return Class.forName("org.apache.kafka.connect.runtime." + name);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException("This is another version of Connect", error);
        }
    }

    private static Field field(Class<?> type, String name) {
        try {
            Field field = type.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException error) {
            throw new IllegalStateException(
                    "This is another version of Connect: " + type.getName() + " has no field " + name, error);
        }
    }

    private static Field fieldOf(Object owner, String name) {
        for (Field field : FIELDS) {
            if (field.getName().equals(name) && field.getDeclaringClass().isInstance(owner)) {
                return field;
            }
        }
        throw new IllegalStateException(owner.getClass().getName() + " has no field " + name);
    }

    private static Object get(Object owner, String name) {
        try {
            return fieldOf(owner, name).get(owner);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    private static void set(Object owner, String name, Object value) {
        try {
            fieldOf(owner, name).set(owner, value);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * Hands the rows to an exactly-once task, on its own thread, before its store starts. One that has
     * an offsets topic of its own copies offsets to the worker's once they are committed.
     */
    @SuppressWarnings("unchecked")
    void giveTo(Worker worker, ConnectorTaskId id) {
        Object task = taskOf(worker, id);
        Object store = get(task, "offsetStore");
        Optional<KafkaOffsetBackingStore> inKafka =
                (Optional<KafkaOffsetBackingStore>) get(store, "connectorStore");
        inKafka.ifPresent(kafka -> replaceLog(kafka, (TopicAdmin) get(task, "admin")));
        ((Optional<OffsetBackingStore>) get(store, "workerStore")).ifPresent(shared -> {
            if (own) {
                OffsetCopies copies = new OffsetCopies(shared);
                set(store, "workerStore", Optional.of(copies));
                set(task, "producer", reporting((Producer<byte[], byte[]>) get(task, "producer"), copies));
            } else {
                // It is the worker's topic at another address
                set(store, "workerStore", Optional.empty());
            }
        });
    }

    /** Returns a task that the worker runs; null: it does not. */
    static Object taskOf(Worker worker, ConnectorTaskId id) {
        return ((Map<?, ?>) get(worker, "tasks")).get(id);
    }

    @SuppressWarnings("unchecked")
    private void replaceLog(KafkaOffsetBackingStore store, TopicAdmin admin) {
        KafkaBasedLog<byte[], byte[]> built = (KafkaBasedLog<byte[], byte[]>) get(store, "offsetLog");
        String topic = (String) get(built, "topic");
        // It was built with the task's own clients, which are closed with the log that has them.
        Consumer<byte[], byte[]> consumer = (Consumer<byte[], byte[]>) made(built, "createConsumer");
        Producer<byte[], byte[]> producer = (Producer<byte[], byte[]>) made(built, "createProducer");
        Callback<ConsumerRecord<byte[], byte[]>> consumed =
                (Callback<ConsumerRecord<byte[], byte[]>>) get(store, "consumedCallback");
        // Creates a connector's own topic, compacted, if there is none
        var initializer = (java.util.function.Consumer<TopicAdmin>) get(built, "initializer");
        KafkaBasedLog<byte[], byte[]> log = KafkaBasedLog.withExistingClients(
                topic, seekingTo(positions, consumer), producer, admin, consumed, Time.SYSTEM,
                initializer.andThen(ignored -> feed(topic, consumed)), ignored -> true);
        set(store, "offsetLog", log);
    }

    private static Object made(KafkaBasedLog<?, ?> log, String name) {
        try {
            Method method = KafkaBasedLog.class.getDeclaredMethod(name);
            method.setAccessible(true);
            return method.invoke(log);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("This is another version of Connect", error);
        }
    }

    private void feed(String topic, Callback<ConsumerRecord<byte[], byte[]>> consumed) {
        for (List<String> row : rows) {
            byte[] key = Base64.getDecoder().decode(row.get(0));
            byte[] value = Base64.getDecoder().decode(row.get(1));
            consumed.onCompletion(null, new ConsumerRecord<>(topic, 0, 0L, key, value));
        }
    }

    /** Returns the consumer, whose beginning of each partition is its position. */
    @SuppressWarnings("unchecked")
    private static Consumer<byte[], byte[]> seekingTo(
            Map<Integer, Long> positions, Consumer<byte[], byte[]> consumer) {
        return proxy(Consumer.class, (proxy, method, arguments) -> {
            if (!method.getName().equals("seekToBeginning")) {
                return call(consumer, method, arguments);
            }
            for (TopicPartition partition : (Collection<TopicPartition>) arguments[0]) {
                Long position = positions.get(partition.partition());
                if (position == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, position);
                }
            }
            return null;
        });
    }

    /** Returns the producer, whose commits release the copies. */
    @SuppressWarnings("unchecked")
    private static Producer<byte[], byte[]> reporting(Producer<byte[], byte[]> producer, OffsetCopies copies) {
        return proxy(Producer.class, (proxy, method, arguments) -> {
            Object result = call(producer, method, arguments);
            if (method.getName().equals("commitTransaction")) {
                copies.committed();
            }
            return result;
        });
    }

    private static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    private static Object call(Object owner, Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(owner, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}
