package connect.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginScanResult;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.rest.entities.ConfigInfos;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.runtime.rest.errors.BadRequestException;
import org.apache.kafka.connect.util.FutureCallback;
import org.apache.kafka.connect.util.Stage;
import org.apache.kafka.connect.util.StagedTimeoutException;
import org.apache.maven.artifact.versioning.InvalidVersionSpecificationException;

/** Answers which plugins there are, which keys they have, and if a config is valid. */
final class Catalog {
    private final Host host;

    Catalog(Host host) {
        this.host = host;
    }

    /** Returns all plugins in the order of Apache's worker: of each its class, kind, version and place. */
    static List<Map<String, String>> list(PluginScanResult found) {
        List<Map<String, String>> rows = new ArrayList<>();
        add(rows, found.sinkConnectors());
        add(rows, found.sourceConnectors());
        add(rows, found.transformations());
        add(rows, found.predicates());
        add(rows, found.converters());
        add(rows, found.headerConverters());
        add(rows, found.configProviders());
        add(rows, found.restExtensions());
        add(rows, found.connectorClientConfigPolicies());
        return rows;
    }

    private static <T> void add(List<Map<String, String>> rows, Collection<PluginDesc<T>> plugins) {
        for (PluginDesc<T> plugin : plugins) {
            Map<String, String> row = new LinkedHashMap<>();
            row.put("class", plugin.className());
            row.put("type", plugin.typeName());
            row.put("version", plugin.version());
            row.put("location", plugin.location());
            rows.add(row);
        }
    }

    /** Returns the keys of a plugin. Throws ConnectRestException for unknown ones. */
    List<ConfigKeyInfo> definition(String plugin, JsonNode version) {
        try {
            return host.herder().connectorPluginConfig(
                    plugin,
                    version == null || version.isNull()
                            ? null
                            : PluginUtils.connectorVersionRequirement(version.asText()));
        } catch (InvalidVersionSpecificationException error) {
            throw new BadRequestException("Invalid version specification: " + version.asText(), error);
        }
    }

    /**
     * Returns Apache's answer to {@code PUT …/config/validate}, within {@code timeoutMs}. Throws what
     * it throws.
     */
    ConfigInfos validate(Map<String, String> config, long timeoutMs) throws Throwable {
        // Its texts may hold what references stand for.
        host.resolve(config);
        FutureCallback<ConfigInfos> callback = new FutureCallback<>();
        host.herder().validateConnectorConfig(config, callback, false);
        try {
            return callback.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            throw error.getCause();
        } catch (StagedTimeoutException late) {
            Stage stage = late.stage();
            String began = stage.description() + ", which began at " + Instant.ofEpochMilli(stage.started());
            throw new TimeoutException(stage.completed() == null
                    ? "Request timed out. The worker is currently " + began
                    : "Request timed out. The last operation the worker completed was " + began
                            + " and completed at " + Instant.ofEpochMilli(stage.completed()));
        } catch (TimeoutException late) {
            throw new TimeoutException("Request timed out");
        }
    }
}
