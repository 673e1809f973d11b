"""Callback invocation (RAP): tool servers that call back when a tool has ended."""
