"""The console: pages that show operators what the gateway does, and let them try tools."""
