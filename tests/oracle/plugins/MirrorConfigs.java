package org.apache.kafka.connect.mirror;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Prints what MirrorMaker makes of its file, {@code {"properties": …}} on standard input: for each
 * flow the worker's properties, and for each connector what it reads out of its config. Configs in
 * {@code "configs"} are read in the same way.
 */
public class MirrorConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeReference<Map<String, String>> TEXTS = new TypeReference<>() { };

    public static void main(String[] arguments) throws Exception {
        JsonNode input = JSON.readTree(System.in);
        Map<String, Object> output = new LinkedHashMap<>();
        if (input.has("properties")) {
            MirrorMakerConfig config = new MirrorMakerConfig(JSON.convertValue(input.get("properties"), TEXTS));
            for (SourceAndTarget flow : config.clusterPairs()) {
                List<Object> connectors = new ArrayList<>();
                for (Class<?> type : MirrorMaker.CONNECTOR_CLASSES) {
                    connectors.add(read(config.connectorBaseConfig(flow, type)));
                }
                output.put(flow.toString(), Map.of("worker", config.workerConfig(flow), "connectors", connectors));
            }
        }
        List<Object> read = new ArrayList<>();
        for (JsonNode config : input.path("configs")) {
            read.add(read(JSON.convertValue(config, TEXTS)));
        }
        output.put("read", read);
        System.out.println(JSON.writeValueAsString(output));
    }

    private static Map<String, Object> read(Map<String, String> properties) {
        MirrorConnectorConfig config = switch (properties.get("name")) {
            case "MirrorSourceConnector" -> new MirrorSourceConfig(properties);
            case "MirrorCheckpointConnector" -> new MirrorCheckpointConfig(properties);
            default -> new MirrorHeartbeatConfig(properties);
        };
        Map<String, Object> values = new TreeMap<>();
        values.put("class", properties.get("connector.class"));
        config.values().forEach((key, value) -> values.put(key, "" + value));
        values.put("source consumer", texts(config.sourceConsumerConfig("role")));
        values.put("source producer", texts(config.sourceProducerConfig("role")));
        values.put("source admin", texts(config.sourceAdminConfig("role")));
        values.put("target consumer", texts(config.targetConsumerConfig("role")));
        values.put("target producer", texts(config.targetProducerConfig("role")));
        values.put("target admin", texts(config.targetAdminConfig("role")));
        return values;
    }

    private static Map<String, String> texts(Map<String, Object> properties) {
        Map<String, String> texts = new TreeMap<>();
        properties.forEach((key, value) -> texts.put(key, "" + value));
        return texts;
    }
}
