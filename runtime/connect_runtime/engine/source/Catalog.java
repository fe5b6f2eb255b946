package connect.engine;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.rest.entities.ConfigInfos;
import org.apache.kafka.connect.runtime.rest.entities.ConfigKeyInfo;
import org.apache.kafka.connect.runtime.rest.errors.BadRequestException;
import org.apache.kafka.connect.util.FutureCallback;
import org.apache.maven.artifact.versioning.InvalidVersionSpecificationException;

/** Answers which plugins there are, which keys they have, and if a config is valid. */
final class Catalog {
    private final Host host;

    Catalog(Host host) {
        this.host = host;
    }

    /** Returns all plugins in the order of Apache's worker: of each its class, kind, version and place. */
    static List<Map<String, String>> list(Plugins plugins) {
        List<Map<String, String>> rows = new ArrayList<>();
        add(rows, plugins.sinkConnectors());
        add(rows, plugins.sourceConnectors());
        add(rows, plugins.transformations());
        add(rows, plugins.predicates());
        add(rows, plugins.converters());
        add(rows, plugins.headerConverters());
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
            return host.herder.connectorPluginConfig(
                    plugin,
                    version == null || version.isNull()
                            ? null
                            : PluginUtils.connectorVersionRequirement(version.asText()));
        } catch (InvalidVersionSpecificationException error) {
            throw new BadRequestException("Invalid version specification: " + version.asText(), error);
        }
    }

    /** Returns Apache's answer to {@code PUT …/config/validate}. Throws what it throws. */
    ConfigInfos validate(Map<String, String> config) throws Throwable {
        // Its texts may hold what references stand for.
        host.resolve(config);
        FutureCallback<ConfigInfos> callback = new FutureCallback<>();
        host.herder.validateConnectorConfig(config, callback, false);
        try {
            return callback.get();
        } catch (ExecutionException error) {
            throw error.getCause();
        }
    }
}
