"""Adapters to tool servers."""
