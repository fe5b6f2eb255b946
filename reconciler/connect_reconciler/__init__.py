"""Makes live match the specs: observe, diff, plan, order, apply, and the ledger of it."""
