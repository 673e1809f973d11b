"""Log lines, and the one thread that writes them."""
