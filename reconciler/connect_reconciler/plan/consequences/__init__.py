"""What does changing a config key mean for the data? Tables of rules: a key pattern, what it does.

To teach it a key, add a rule to connect_keys or connector_keys, and the sentence of a new
effect to render/effects; projects bring their own in consequences.yaml. A rule only explains:
nothing is decided by it.
"""
