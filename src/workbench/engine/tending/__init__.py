"""What an engine does beside its searches: room, retention, packages, lost series."""
