import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.text.ParseException;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.components.ConnectPlugin;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.SchemaProjector;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.apache.kafka.connect.util.ConnectorUtils;

/**
 * Answers cases with what Kafka Connect's own classes do: one JSON object a line in, one out.
 *
 * <p>A case is {class, config, records}: the answer has a result for each record, or the error of
 * configure. A case {schema, value} asks whether a value fits a schema, {schema, value, target}
 * projects it, {format, millis, texts} formats and parses times, {describe} lists the options of a
 * plugin or a client, {elements, groups} distributes the numbers below `elements`. {converter, config} reads each
 * of `read` (base64, or null), and writes each of `write` ({schema, value}); with `brief` it does not
 * say what it read. {literals, config} writes texts as headers in JSON. tests/support/connect_json.py says how records and values are written.
 */
public final class ApplyTransforms {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
        }
    }

    private static JsonNode answer(JsonNode given) {
        try {
            if (given.has("target")) {
                Schema source = schema(given.get("schema"));
                Object projected = SchemaProjector.project(
                        source, value(given.get("value"), source), schema(given.get("target")));
                return JSON.objectNode().set("value", text(projected));
            }
            if (given.has("groups")) {
                List<Integer> elements = new ArrayList<>();
                for (int i = 0; i < given.get("elements").asInt(); i++) {
                    elements.add(i);
                }
                return MAPPER.valueToTree(Map.of("groups",
                        ConnectorUtils.groupPartitions(elements, given.get("groups").asInt())));
            }
            if (given.has("format")) {
                return dates(given);
            }
            if (given.has("describe")) {
                return options(Class.forName(given.get("describe").asText()));
            }
            if (given.has("class")) {
                return applied(given);
            }
            if (given.has("converter")) {
                return converted(given);
            }
            if (given.has("headers")) {
                return asHeaders(given);
            }
            if (given.has("literals")) {
                return literalsAsJson(given);
            }
            Schema schema = schema(given.get("schema"));
            ConnectSchema.validateValue("f", schema, value(given.get("value"), schema));
            return JSON.objectNode().put("valid", true);
        } catch (Throwable e) {
            return error(e);
        }
    }

    private static JsonNode dates(JsonNode given) {
        SimpleDateFormat format = new SimpleDateFormat(given.get("format").asText());
        format.setTimeZone(TimeZone.getTimeZone("UTC"));
        ObjectNode found = JSON.objectNode();
        ArrayNode texts = found.putArray("texts");
        given.get("millis").forEach(each -> texts.add(format.format(new Date(each.asLong()))));
        ArrayNode millis = found.putArray("millis");
        for (JsonNode each : given.get("texts")) {
            try {
                millis.add(format.parse(each.asText()).getTime());
            } catch (ParseException e) {
                millis.addNull();
            }
            // a zone that was parsed would stay
            format.setTimeZone(TimeZone.getTimeZone("UTC"));
        }
        return found;
    }

    private static ConfigDef definition(Class<?> described) throws Exception {
        if (AbstractConfig.class.isAssignableFrom(described)) {
            return (ConfigDef) described.getMethod("configDef").invoke(null);
        }
        return ((ConnectPlugin) described.getDeclaredConstructor().newInstance()).config();
    }

    private static JsonNode options(Class<?> plugin) throws Exception {
        ConfigDef config = definition(plugin);
        ObjectNode found = JSON.objectNode();
        ArrayNode options = found.putArray("options");
        for (ConfigDef.ConfigKey key : config.configKeys().values()) {
            if (key.internalConfig) {
                continue;
            }
            ObjectNode option = options.addObject();
            option.put("name", key.name);
            option.put("type", key.type.name());
            option.put("required", !key.hasDefault());
            option.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            option.put("importance", key.importance.name());
            option.put("doc", key.documentation);
            option.put("validator", key.validator == null ? null : key.validator.toString());
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static JsonNode applied(JsonNode given) throws Exception {
        Map<String, String> config = config(given);
        Object plugin = Class.forName(given.get("class").asText()).getDeclaredConstructor().newInstance();
        if (plugin instanceof Predicate) {
            ((Predicate<?>) plugin).configure(config);
        } else {
            ((Transformation<?>) plugin).configure(config);
        }
        ArrayNode results = JSON.arrayNode();
        for (JsonNode each : given.get("records")) {
            try {
                if (each.get("kind").asText().equals("sink")) {
                    results.add(result(plugin, sinkRecord(each)));
                } else {
                    results.add(result(plugin, sourceRecord(each)));
                }
            } catch (Throwable e) {
                results.add(error(e));
            }
        }
        return JSON.objectNode().set("results", results);
    }

    private static JsonNode converted(JsonNode given) throws Exception {
        Converter converter =
                (Converter) Class.forName(given.get("converter").asText()).getDeclaredConstructor().newInstance();
        converter.configure(config(given), false);
        ArrayNode results = JSON.arrayNode();
        for (JsonNode each : given.withArray("read")) {
            try {
                SchemaAndValue read = converter.toConnectData("t", each.isNull() ? null : each.binaryValue());
                ObjectNode found = results.addObject();
                if (!given.path("brief").asBoolean()) {
                    found.set("schema", text(read.schema()));
                    found.set("value", text(read.value()));
                }
            } catch (Throwable e) {
                results.add(error(e));
            }
        }
        for (JsonNode each : given.withArray("write")) {
            try {
                Schema schema = schema(each.get("schema"));
                byte[] data = converter.fromConnectData("t", schema, value(each.get("value"), schema));
                results.addObject().put("data", data);
            } catch (Throwable e) {
                results.add(error(e));
            }
        }
        return JSON.objectNode().set("results", results);
    }

    /** What SimpleHeaderConverter makes of values, the schemas that it reads this with, and what it makes of that. */
    private static JsonNode asHeaders(JsonNode given) {
        SimpleHeaderConverter converter = new SimpleHeaderConverter();
        ArrayNode results = JSON.arrayNode();
        for (JsonNode each : given.get("headers")) {
            Schema schema = schema(each.get("schema"));
            byte[] data = converter.fromConnectHeader("t", "h", schema, value(each.get("value"), schema));
            SchemaAndValue read = converter.toConnectHeader("t", "h", data);
            ObjectNode found = results.addObject();
            found.put("data", data);
            found.set("schema", text(read.schema()));
            found.put("again", converter.fromConnectHeader("t", "h", read.schema(), read.value()));
        }
        return JSON.objectNode().set("results", results);
    }

    /** What JsonConverter makes of the header that InsertHeader makes of a literal, and what it reads then. */
    private static JsonNode literalsAsJson(JsonNode given) {
        JsonConverter converter = new JsonConverter();
        Map<String, String> config = config(given);
        config.put("converter.type", "header");
        converter.configure(config);
        ArrayNode results = JSON.arrayNode();
        for (JsonNode each : given.get("literals")) {
            byte[] data;
            try {
                SchemaAndValue header = Values.parseString(each.asText());
                data = converter.fromConnectHeader("t", "h", header.schema(), header.value());
            } catch (Throwable e) {
                results.add(error(e));
                continue;
            }
            ObjectNode found = results.addObject().put("data", data);
            try {
                SchemaAndValue read = converter.toConnectHeader("t", "h", data);
                found.set("schema", text(read.schema()));
                found.set("value", text(read.value()));
            } catch (Throwable e) {
                found.set("unreadable", error(e));
            }
        }
        return JSON.objectNode().set("results", results);
    }

    private static Map<String, String> config(JsonNode given) {
        Map<String, String> config = new HashMap<>();
        given.get("config").fields().forEachRemaining(
                e -> config.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
        return config;
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> JsonNode result(Object plugin, R record) {
        if (plugin instanceof Predicate) {
            return JSON.objectNode().put("test", ((Predicate<R>) plugin).test(record));
        }
        R changed = ((Transformation<R>) plugin).apply(record);
        return changed == null ? JSON.objectNode().put("dropped", true) : text(changed);
    }

    private static ObjectNode error(Throwable e) {
        ObjectNode found = JSON.objectNode();
        found.put("error", e.getClass().getName());
        found.put("message", e.getMessage());
        if (e.getCause() != null) {
            found.put("cause", e.getCause().getMessage());
        }
        return found;
    }

    // records

    private static SourceRecord sourceRecord(JsonNode r) {
        Schema keySchema = schema(r.get("key_schema"));
        Schema valueSchema = schema(r.get("value_schema"));
        return new SourceRecord(Map.of("p", "1"), Map.of("o", 1L), r.get("topic").asText(), number(r.get("partition")),
                keySchema, value(r.get("key"), keySchema), valueSchema, value(r.get("value"), valueSchema),
                r.get("timestamp").isNull() ? null : r.get("timestamp").asLong(), headers(r.get("headers")));
    }

    private static SinkRecord sinkRecord(JsonNode r) {
        Schema keySchema = schema(r.get("key_schema"));
        Schema valueSchema = schema(r.get("value_schema"));
        boolean none = r.get("timestamp").isNull();
        return new SinkRecord(r.get("topic").asText(), r.get("partition").asInt(), keySchema,
                value(r.get("key"), keySchema), valueSchema, value(r.get("value"), valueSchema),
                r.get("offset").asLong(), none ? null : r.get("timestamp").asLong(),
                none ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, headers(r.get("headers")));
    }

    private static Integer number(JsonNode n) {
        return n == null || n.isNull() ? null : n.asInt();
    }

    private static ConnectHeaders headers(JsonNode listed) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode h : listed) {
            Schema schema = schema(h.get("schema"));
            headers.add(h.get("key").asText(), value(h.get("value"), schema), schema);
        }
        return headers;
    }

    private static ObjectNode text(ConnectRecord<?> r) {
        ObjectNode found = JSON.objectNode();
        found.put("topic", r.topic());
        found.put("partition", r.kafkaPartition());
        found.put("timestamp", r.timestamp());
        if (r instanceof SinkRecord) {
            found.put("offset", ((SinkRecord) r).kafkaOffset());
        }
        found.set("key_schema", text(r.keySchema()));
        found.set("key", text(r.key()));
        found.set("value_schema", text(r.valueSchema()));
        found.set("value", text(r.value()));
        ArrayNode headers = found.putArray("headers");
        for (Header h : r.headers()) {
            ObjectNode header = headers.addObject();
            header.put("key", h.key());
            header.set("schema", text(h.schema()));
            header.set("value", text(h.value()));
        }
        return found;
    }

    // schemas

    private static Schema schema(JsonNode n) {
        if (n == null || n.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(n.get("type").asText());
        SchemaBuilder b;
        if (type == Schema.Type.ARRAY) {
            b = SchemaBuilder.array(schema(n.get("items")));
        } else if (type == Schema.Type.MAP) {
            b = SchemaBuilder.map(schema(n.get("keys")), schema(n.get("values")));
        } else {
            b = SchemaBuilder.type(type);
        }
        if (type == Schema.Type.STRUCT) {
            for (JsonNode f : n.get("fields")) {
                b.field(f.get(0).asText(), schema(f.get(1)));
            }
        }
        if (n.path("optional").asBoolean()) {
            b.optional();
        }
        if (n.hasNonNull("name")) {
            b.name(n.get("name").asText());
        }
        if (n.hasNonNull("version")) {
            b.version(n.get("version").asInt());
        }
        if (n.hasNonNull("doc")) {
            b.doc(n.get("doc").asText());
        }
        if (n.hasNonNull("parameters")) {
            Map<String, String> parameters = new HashMap<>();
            n.get("parameters").fields().forEachRemaining(e -> parameters.put(e.getKey(), e.getValue().asText()));
            b.parameters(parameters);
        }
        if (n.hasNonNull("default")) {
            // a struct of the builder itself: Connect takes no other
            b.defaultValue(value(n.get("default"), b));
        }
        return b.build();
    }

    private static JsonNode text(Schema s) {
        if (s == null) {
            return JSON.nullNode();
        }
        ObjectNode n = JSON.objectNode();
        n.put("type", s.type().name());
        if (s.isOptional()) {
            n.put("optional", true);
        }
        if (s.name() != null) {
            n.put("name", s.name());
        }
        if (s.version() != null) {
            n.put("version", s.version());
        }
        if (s.doc() != null) {
            n.put("doc", s.doc());
        }
        if (s.parameters() != null) {
            ObjectNode parameters = n.putObject("parameters");
            s.parameters().forEach(parameters::put);
        }
        if (s.defaultValue() != null) {
            n.set("default", text(s.defaultValue()));
        }
        if (s.type() == Schema.Type.ARRAY) {
            n.set("items", text(s.valueSchema()));
        }
        if (s.type() == Schema.Type.MAP) {
            n.set("keys", text(s.keySchema()));
            n.set("values", text(s.valueSchema()));
        }
        if (s.type() == Schema.Type.STRUCT) {
            ArrayNode fields = n.putArray("fields");
            for (Field f : s.fields()) {
                fields.addArray().add(f.name()).add(text(f.schema()));
            }
        }
        return n;
    }

    // values

    private static Object value(JsonNode n, Schema schema) {
        if (n == null || n.isNull()) {
            return null;
        }
        JsonNode v = n.get("v");
        switch (n.get("t").asText()) {
            case "boolean": return v.asBoolean();
            case "int8": return (byte) v.asInt();
            case "int16": return (short) v.asInt();
            case "int32": return v.asInt();
            case "int64": return Long.parseLong(v.asText());
            case "bigint": return new BigInteger(v.asText());
            case "float32": return Float.parseFloat(v.asText());
            case "float64": return Double.parseDouble(v.asText());
            case "string": return v.asText();
            case "bytes": return Base64.getDecoder().decode(v.asText());
            case "decimal": return new BigDecimal(v.asText());
            case "date": return new Date(Long.parseLong(v.asText()));
            case "array": {
                List<Object> found = new ArrayList<>();
                Schema items = schema != null && schema.type() == Schema.Type.ARRAY ? schema.valueSchema() : null;
                v.forEach(each -> found.add(value(each, items)));
                return found;
            }
            case "map": {
                boolean typed = schema != null && schema.type() == Schema.Type.MAP;
                Map<Object, Object> found = new HashMap<>();
                for (JsonNode entry : v) {
                    found.put(value(entry.get(0), typed ? schema.keySchema() : null),
                            value(entry.get(1), typed ? schema.valueSchema() : null));
                }
                return found;
            }
            case "struct": {
                // its own schema, if it is not what the record's schema says
                Schema own = n.has("schema") ? schema(n.get("schema")) : schema;
                Struct struct = new Struct(own);
                for (JsonNode entry : v) {
                    String name = entry.get(0).asText();
                    struct.put(name, value(entry.get(1), own.field(name).schema()));
                }
                return struct;
            }
            default: throw new IllegalArgumentException("unknown type " + n);
        }
    }

    private static JsonNode text(Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        if (value instanceof Boolean) {
            return tagged("boolean").put("v", (Boolean) value);
        } else if (value instanceof Byte) {
            return tagged("int8").put("v", value.toString());
        } else if (value instanceof Short) {
            return tagged("int16").put("v", value.toString());
        } else if (value instanceof Integer) {
            return tagged("int32").put("v", value.toString());
        } else if (value instanceof Long) {
            return tagged("int64").put("v", value.toString());
        } else if (value instanceof BigInteger) {
            return tagged("bigint").put("v", value.toString());
        } else if (value instanceof Float) {
            return tagged("float32").put("v", value.toString());
        } else if (value instanceof Double) {
            return tagged("float64").put("v", value.toString());
        } else if (value instanceof String) {
            return tagged("string").put("v", (String) value);
        } else if (value instanceof byte[]) {
            return tagged("bytes").put("v", Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof ByteBuffer) {
            return tagged("bytes").put("v", Base64.getEncoder().encodeToString(((ByteBuffer) value).array()));
        } else if (value instanceof BigDecimal) {
            return tagged("decimal").put("v", value.toString());
        } else if (value instanceof Date) {
            return tagged("date").put("v", Long.toString(((Date) value).getTime()));
        } else if (value instanceof List) {
            ObjectNode found = tagged("array");
            ArrayNode items = found.putArray("v");
            ((List<?>) value).forEach(each -> items.add(text(each)));
            return found;
        } else if (value instanceof Map) {
            ObjectNode found = tagged("map");
            ArrayNode entries = found.putArray("v");
            ((Map<?, ?>) value).forEach((k, v) -> entries.addArray().add(text(k)).add(text(v)));
            return found;
        } else if (value instanceof Struct) {
            Struct struct = (Struct) value;
            ObjectNode found = tagged("struct");
            ArrayNode fields = found.putArray("v");
            for (Field f : struct.schema().fields()) {
                Object each = struct.getWithoutDefault(f.name());
                if (each != null) {
                    fields.addArray().add(f.name()).add(text(each));
                }
            }
            return found;
        }
        return tagged(value.getClass().getName());
    }

    private static ObjectNode tagged(String type) {
        return JSON.objectNode().put("t", type);
    }
}
