"""What tests of several levels share: processes, tool servers, callers, keys. It holds no tests."""
