"""Between connectors' values and Kafka's bytes: converters as functions over batches."""
