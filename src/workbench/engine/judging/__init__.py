"""Whose fault a lost leg is, how long a silent one may take, and whether resuming is exact."""
