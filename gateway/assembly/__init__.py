"""From a configuration to running parts, and what the next configuration replaces."""
