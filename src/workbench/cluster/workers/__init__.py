"""What runs on a Dask worker and below it."""
