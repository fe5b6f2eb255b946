package connect.engine;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.runtime.isolation.Plugins;

/** Config providers that answer for the other side: for its own clients, and for Python connectors. */
final class Providers {
    private static final TypeReference<Map<String, String>> PARAMS = new TypeReference<>() { };
    private static final TypeReference<Set<String>> KEYS = new TypeReference<>() { };

    private final Plugins plugins;
    private final Secrets secrets;
    private final Map<Declared, ConfigProvider> configured = new ConcurrentHashMap<>();

    private record Declared(String className, Map<String, String> params) { }

    Providers(Plugins plugins, Secrets secrets) {
        this.plugins = plugins;
        this.secrets = secrets;
    }

    /**
     * Returns the values of keys at a path, and for how many milliseconds they are valid, if that is
     * known. The provider is configured once for the same parameters.
     */
    Object answer(JsonNode call) throws Exception {
        Declared declared = new Declared(
                call.get("plugin").asText(), Wire.JSON.convertValue(call.get("params"), PARAMS));
        ConfigProvider provider = configured.get(declared);
        if (provider == null) {
            provider = (ConfigProvider) plugins.newPlugin(declared.className(), null);
            try (var swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
                provider.configure(declared.params());
            }
            configured.put(declared, provider);
        }
        ConfigData data;
        try (var swap = plugins.withClassLoader(provider.getClass().getClassLoader())) {
            data = provider.get(call.get("path").asText(), Wire.JSON.convertValue(call.get("keys"), KEYS));
        }
        secrets.report(data.data().values());
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("values", data.data());
        answer.put("ttlMs", data.ttl());
        return answer;
    }
}
