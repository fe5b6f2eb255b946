"""Connect's REST API: parse, ask the herder, answer."""
