"""The checks of tool servers of OTC and OXP, in any dialect."""

from toolgate_conformance.servers.rest import (
    arguments,
    call_ids,
    credentials,
    definitions,
    health,
    listing,
    protocol_versions,
    refusals,
    requests,
    requirements,
    results,
    tool_ids,
)

THEMES = (
    *(health, listing, definitions, results, call_ids, tool_ids, arguments, requests, protocol_versions, refusals),
    *(credentials, requirements),
)
