"""Legs: their orders, slots, messages and display."""
