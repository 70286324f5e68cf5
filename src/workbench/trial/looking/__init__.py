"""What represents content in comparisons: digests, and tokens of values without identity."""
