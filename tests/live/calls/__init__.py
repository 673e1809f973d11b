"""Calls that outlive a request: replicas, Redis and tool servers that fail while they are pending."""
