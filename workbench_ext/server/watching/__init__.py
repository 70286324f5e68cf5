"""What the server does without being asked. Law: it looks at files and starts engines; it answers no request."""
