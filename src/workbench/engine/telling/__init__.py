"""What an engine tells others: people, storages, mirrors."""
