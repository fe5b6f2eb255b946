"""The ledger's formats: owners, applied configs, pins and journals. Pure."""
