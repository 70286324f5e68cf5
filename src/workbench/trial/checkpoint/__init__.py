"""A checkpoint's files: its header, its tensors, and what is taken to be written."""
