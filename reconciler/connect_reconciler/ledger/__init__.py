"""The ledger: what was applied by whom, which pins were used, who holds the lease."""
