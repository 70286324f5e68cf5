"""Cells as text: what they do, take and search over."""
