"""What training gets from outside its cell, and what it was seen to use."""
