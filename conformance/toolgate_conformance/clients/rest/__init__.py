"""The checks of clients of OTC and OXP, in any dialect."""

from toolgate_conformance.clients.rest import calls, challenges, credentials, failures, lists, results, retries

THEMES = (lists, calls, results, failures, retries, credentials, challenges)
