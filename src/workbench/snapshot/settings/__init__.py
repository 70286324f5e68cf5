"""Settings that a process has made: which there are, how they are read, compared and applied elsewhere."""
