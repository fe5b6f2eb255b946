package tests;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** A transformation that ends the JVM at its first record, when the connector has connected. */
public class Exiting<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
    @Override
    public R apply(R record) {
        System.exit(7);
        return record;
    }

    @Override
    public void configure(Map<String, ?> config) { }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void close() { }
}
