package connect.engine;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The way of tasks to a JVM that they share: a Unix socket, in a folder that only the owner can enter.
 * The owner connects for a task, sends a frame with the number of this connection, and passes it on.
 */
final class TaskDoor {
    private static final Logger LOG = LoggerFactory.getLogger(TaskDoor.class);
    private static final long PAUSE_NS = 100_000_000;
    private final Engine engine;
    private final Wire owner;
    private final Path path;
    private final BeanOwners owners = new BeanOwners();

    TaskDoor(Engine engine, Wire owner, Path path) {
        this.engine = engine;
        this.owner = owner;
        this.path = path;
    }

    /** Begins to accept tasks. */
    void open() throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(path));
        server.configureBlocking(false);
        Selector selector = Selector.open();
        server.register(selector, SelectionKey.OP_ACCEPT);
        start("engine-door", () -> accept(server, selector));
    }

    private void accept(ServerSocketChannel server, Selector selector) {
        while (true) {
            SocketChannel channel = null;
            try {
                // A plugin that interrupts all threads closes no door.
                Thread.interrupted();
                selector.select();
                selector.selectedKeys().clear();
                channel = server.accept();
                if (channel != null) {
                    UnixSocket socket = new UnixSocket(channel);
                    start("engine-peer", () -> serve(socket));
                }
            } catch (Throwable error) {
                // Also for want of threads or descriptors, which the next task may have.
                LOG.warn("A task could not connect", error);
                Utils.closeQuietly(channel, "a task's connection");
                LockSupport.parkNanos(PAUSE_NS);
            }
        }
    }

    static void start(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(UnixSocket socket) {
        Wire wire = new Wire(socket.input(), socket.output(), socket::close);
        long number;
        try {
            number = wire.read().get("peer").asLong();
        } catch (IOException gone) {
            socket.close();
            return;
        }
        Peer peer = new Peer(engine, wire, "/" + number, owners, socket::close);
        Peer.End end = new Peer.End(true, false);
        try {
            serve(wire, peer);
            end = peer.end();
        } catch (Throwable error) {
            LOG.error("A task that is gone was not ended", error);
        } finally {
            // After the end of the task: the other side waits for that.
            socket.close();
            owner.event("peer-ended", Map.of(
                    "peer", number, "threadLeft", end.threadLeft(), "outOfMemory", end.outOfMemory()));
        }
    }

    private void serve(Wire wire, Peer peer) {
        try {
            engine.secrets().add(wire);
            wire.serve(peer.calls());
        } catch (Throwable error) {
            LOG.error("Requests of a task are not answered any more", error);
        } finally {
            engine.secrets().remove(wire);
        }
    }
}
