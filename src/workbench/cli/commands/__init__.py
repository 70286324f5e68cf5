"""The verbs of the command line, a few in each module."""
