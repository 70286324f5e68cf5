"""How an experiment is shown while it runs: in a notebook, in a terminal, in a log."""
