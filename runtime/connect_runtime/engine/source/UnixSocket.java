package connect.engine;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The streams of a Unix socket. It never blocks in a call of its channel: a thread of a plugin that is
 * interrupted in one closes the channel.
 */
final class UnixSocket {
    private static final long RETRY_NS = 500_000;
    /** So long the other side may take to read. */
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(30);
    private final SocketChannel channel;
    private final Selector selector;

    UnixSocket(SocketChannel channel) throws IOException {
        this.channel = channel;
        selector = Selector.open();
        channel.configureBlocking(false);
        channel.register(selector, SelectionKey.OP_READ);
    }

    InputStream input() {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] bytes, int from, int length) throws IOException {
                ByteBuffer buffer = ByteBuffer.wrap(bytes, from, length);
                try {
                    int count = channel.read(buffer);
                    while (count == 0) {
                        // An interrupted thread would not wait
                        Thread.interrupted();
                        selector.select();
                        selector.selectedKeys().clear();
                        count = channel.read(buffer);
                    }
                    return count;
                } catch (ClosedSelectorException closed) {
                    throw new IOException(closed);
                }
            }
        };
    }

    OutputStream output() {
        return new OutputStream() {
            @Override
            public void write(int character) throws IOException {
                write(new byte[] {(byte) character}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int from, int length) throws IOException {
                ByteBuffer buffer = ByteBuffer.wrap(bytes, from, length);
                long movedAt = System.nanoTime();
                while (buffer.hasRemaining()) {
                    if (channel.write(buffer) > 0) {
                        movedAt = System.nanoTime();
                    } else if (System.nanoTime() - movedAt > PATIENCE_NS) {
                        throw new IOException("the other side does not read");
                    } else {
                        LockSupport.parkNanos(RETRY_NS);
                    }
                }
            }
        };
    }

    /** Closes it; its reader gets an exception. */
    void close() {
        try {
            channel.close();
            selector.close();
        } catch (IOException error) {
            // It is closed, or of no use any more.
        }
    }
}
