package connect.engine;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.rmi.registry.LocateRegistry;
import java.rmi.server.ExportException;
import java.rmi.server.RMIServerSocketFactory;
import java.util.Map;
import javax.management.remote.JMXConnectorServerFactory;
import javax.management.remote.JMXServiceURL;
import javax.management.remote.rmi.RMIConnectorServer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Serves this JVM's MBeans to tools such as JConsole, to users of this machine only. */
final class Jmx {
    private static final Logger LOG = LoggerFactory.getLogger(Jmx.class);
    private static final int MOST = 1_000;

    private Jmx() { }

    /** Serves them at the first port that is free, from this one on: each JVM needs its own. */
    static void serve(int first) throws IOException {
        System.setProperty("java.rmi.server.hostname", "127.0.0.1");
        RMIServerSocketFactory local = port -> new ServerSocket(port, 0, InetAddress.getByName("127.0.0.1"));
        for (int port = first; port < first + MOST; port++) {
            try {
                LocateRegistry.createRegistry(port, null, local);
            } catch (ExportException inUse) {
                continue;
            }
            JMXConnectorServerFactory.newJMXConnectorServer(
                    new JMXServiceURL("service:jmx:rmi://127.0.0.1:" + port + "/jndi/rmi://127.0.0.1:" + port + "/jmxrmi"),
                    Map.of(RMIConnectorServer.RMI_SERVER_SOCKET_FACTORY_ATTRIBUTE, local),
                    ManagementFactory.getPlatformMBeanServer())
                    .start();
            LOG.info("JMX is served at 127.0.0.1:{}", port);
            return;
        }
        LOG.warn("JMX is not served: no port from {} on is free", first);
    }
}
