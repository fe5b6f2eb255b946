"""Effects of changed config keys on the data: tables of rules, each a key pattern and its effects.

To add a key, add a rule to connect_keys or connector_keys; projects bring their own in
consequences.yaml. A rule only explains: nothing is decided by it.
"""
