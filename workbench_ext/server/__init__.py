"""The server extension: it serves the panel and the live view."""
