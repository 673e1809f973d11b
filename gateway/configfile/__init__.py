"""Reads YAML files of ours into pydantic models: places in the text, values with units, secrets, all problems."""
