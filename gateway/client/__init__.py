"""An asynchronous client of a gateway, in the flat form of OXP 1.0: `from gateway.client import Toolgate`."""

from gateway.client.answers import Consent, Failure, Missing, NamedSecret, Needs, Refusal, Tool
from gateway.client.errors import ConsentError, RefusedError, ToolFailedError, ToolgateError, UnreachableError
from gateway.client.models import for_anthropic, for_gemini, for_openai, newest_by_name
from gateway.client.toolgate import Toolgate

__all__ = [
    "Consent",
    "ConsentError",
    "Failure",
    "Missing",
    "NamedSecret",
    "Needs",
    "Refusal",
    "RefusedError",
    "Tool",
    "ToolFailedError",
    "Toolgate",
    "ToolgateError",
    "UnreachableError",
    "for_anthropic",
    "for_gemini",
    "for_openai",
    "newest_by_name",
]
