"""Where the time of a training loop goes: what it waits for, and its costly lines. Law: measuring changes no result."""
