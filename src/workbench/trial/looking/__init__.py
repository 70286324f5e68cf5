"""What stands for a content when it is compared with another: digests, and tokens of what has no identity."""
