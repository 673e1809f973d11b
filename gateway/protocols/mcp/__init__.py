"""The Model Context Protocol: towards callers, and towards tool servers."""
