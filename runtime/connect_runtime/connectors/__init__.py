"""The built-in connectors, written against connect_runtime.api alone."""
