"""Reading cells as text: their effects, their inputs and their search space."""
