"""What every backend has: one exchange with a tool server, its places, its lists, its credentials."""
