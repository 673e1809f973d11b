"""Demonstration tool servers, real and small; they share no code with the gateway."""
