"""The content of lists and pages about a store."""
