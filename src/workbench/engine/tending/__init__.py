"""The engine's work besides its searches: disk space, retention, packages, lost series."""
