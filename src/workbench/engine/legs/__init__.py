"""Legs: ordered, placed, heard and shown."""
