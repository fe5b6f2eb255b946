package tests;

import java.net.InetSocketAddress;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/** Serves a catalog of Iceberg over its REST protocol, by the classes with which Iceberg tests it. */
public final class RestCatalog {
    private RestCatalog() { }

    /** Arguments are the port, and {@code key=value} of the catalog that has the tables. */
    public static void main(String[] arguments) throws Exception {
        Map<String, String> properties = Stream.of(arguments)
                .skip(1)
                .map(argument -> argument.split("=", 2))
                .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        RESTCatalogAdapter adapter = new RESTCatalogAdapter(
                CatalogUtil.buildIcebergCatalog("tests", properties, new Configuration()));
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        server.setHandler(handler);
        server.start();
        server.join();
    }
}
