"""The checks of clients of RCRT."""

from toolgate_conformance.clients.rcrt import creation, requests, responses, stream, tokens

THEMES = (tokens, requests, creation, stream, responses)
