"""Checkpoints and blobs: what is kept, where, and for how long."""
