"""The server extension: what the panel and the live view ask for."""
