"""The move of a connector to another name, with its offsets (KIP-980). Pure."""
