"""Results of functions that are the same for all trials: ``trial.cached`` and ``trial.shared``."""
