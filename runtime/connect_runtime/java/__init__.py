"""Java's value semantics, where they decide bytes of records, offset keys or values of configs."""
