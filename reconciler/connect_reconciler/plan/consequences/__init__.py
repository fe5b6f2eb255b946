"""Effects of changed config keys on the data: a table of rules, each a key pattern and its effects.

To add a key, add a rule to rules.yaml, whose form projects use for rules of their own in
consequences.yaml. A rule only explains: nothing is decided by it.
"""
