"""The verbs of the command line, a module for a few of them."""
