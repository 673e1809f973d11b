"""The protocols that tool servers and callers speak: a folder for each, which no other imports."""
