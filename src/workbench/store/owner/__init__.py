"""Whose a store is, and which engine and slots are whose."""
