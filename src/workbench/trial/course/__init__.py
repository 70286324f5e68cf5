"""How a leg runs the set-up and the loop."""
