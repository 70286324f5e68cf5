"""Random state: what training draws from, seeded, saved and restored."""
