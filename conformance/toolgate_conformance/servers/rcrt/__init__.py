"""The checks of servers that speak RCRT, together with their tools-runner."""

from toolgate_conformance.servers.rcrt import (
    breadcrumbs,
    changes,
    discovery,
    lists,
    requests,
    responses,
    stream,
    tokens,
)

THEMES = (tokens, breadcrumbs, lists, changes, stream, discovery, requests, responses)
