"""The owner of a store, its engine, and the leases of slots."""
