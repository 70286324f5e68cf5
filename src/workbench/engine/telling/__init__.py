"""What an engine sends out: notifications, checkpoints for storages, mirrors."""
