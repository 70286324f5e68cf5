"""A checkpoint's files: its header, its tensors, and the captured state to be written."""
