"""The code that runs on a Dask worker and in its child processes."""
