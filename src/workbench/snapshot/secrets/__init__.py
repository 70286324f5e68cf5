"""Secrets, recognised and masked."""
