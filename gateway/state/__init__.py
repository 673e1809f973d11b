"""What the gateway remembers of calls: one port, kept in memory or in Redis."""
