"""The environment of training outside its cell, and what training was seen to use."""
