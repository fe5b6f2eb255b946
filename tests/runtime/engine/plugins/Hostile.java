package tests;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.SourceConnector;

/** A source whose class does, when it is loaded, what the file version.txt in its own jar says. */
public class Hostile extends SourceConnector {
    static {
        try (InputStream file = Hostile.class.getResourceAsStream("/version.txt")) {
            String text = new String(file.readAllBytes(), StandardCharsets.UTF_8).strip();
            if (text.equals("exits")) {
                System.exit(7);
            } else if (text.equals("hangs")) {
                Thread.sleep(Long.MAX_VALUE);
            }
            while (text.equals("loops")) {
                Thread.onSpinWait();
            }
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void start(Map<String, String> config) { }

    @Override
    public Class<? extends Task> taskClass() {
        return null;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of();
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1.0";
    }
}
