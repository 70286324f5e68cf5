"""The processes that run training code, and what each starts with."""
