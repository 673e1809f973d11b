"""The wire forms Toolgate speaks."""
