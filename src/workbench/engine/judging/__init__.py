"""Faults of lost legs, the time limit of silent legs, and checks of whether resuming is exact."""
