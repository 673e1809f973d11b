"""The tool formats that several protocols share: members, definitions, lists and replies as JSON. Pure."""
