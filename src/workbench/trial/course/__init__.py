"""A leg's way through the set-up and the loop."""
