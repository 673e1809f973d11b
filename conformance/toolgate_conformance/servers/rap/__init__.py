"""The checks of tool servers that speak RAP (callback invocation)."""

from toolgate_conformance.servers.rap import (
    acknowledgements,
    credentials,
    delivery,
    invalid,
    messages,
    notices,
    people,
    toolset,
)

THEMES = (toolset, acknowledgements, messages, invalid, delivery, notices, people, credentials)
