"""The processes from which a worker forks its runners."""
