"""A trained model outside of its trial."""
