"""What every other package shares: the neutral model, errors, wire messages, ports, and small pure tools."""
