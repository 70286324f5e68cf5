"""Files that are whole or not there, and databases of them."""
