"""The server's background work. Law: it looks at files and starts engines; it answers no request."""
