"""The 401 answers: RFC 6750, section 3, for bearer tokens and API keys alike."""

from __future__ import annotations

from enum import StrEnum

from gateway.core.errors import UnauthenticatedError, UndecidedError

REALM = b'Bearer realm="toolgate"'  # at least one parameter must follow the scheme


class Reason(StrEnum):
    """Why, in one word: for logs and counters, never for the caller, who would learn what to try next."""

    MISSING = "missing"  # no credential at all
    SEVERAL = "several"  # more than one: whose call it is would be our guess
    HEADER = "header"  # another scheme, nothing a token could be, or an API key where there are none
    TOO_LONG = "too_long"  # longer than any head may be
    UNREADABLE = "unreadable"
    ISSUER = "issuer"  # none of ours
    ALGORITHM = "algorithm"  # not one its issuer signs with
    KEY = "key"  # its issuer has no such key
    NO_KEYS = "no_keys"  # the keys of its issuer could not be fetched yet
    SIGNATURE = "signature"
    CLAIM = "claim"  # a required one is missing, or is not of its type
    EXPIRED = "expired"
    NOT_YET = "not_yet"
    LIFETIME = "lifetime"  # ends too far ahead
    AUDIENCE = "audience"
    SUBJECT = "subject"
    USER = "user"  # the claim that names the user is missing, or is no name
    API_KEY = "api_key"


# Reading a member off its class costs half a microsecond in Python 3.11; these are what floods are refused for.
HEADER, UNREADABLE, ISSUER, SIGNATURE = Reason.HEADER, Reason.UNREADABLE, Reason.ISSUER, Reason.SIGNATURE
MISSING, TOO_LONG = Reason.MISSING, Reason.TOO_LONG

# A signature has been checked before any of these is found, or a key looked up.
ATTEMPTS = frozenset(
    {Reason.SIGNATURE, Reason.CLAIM, Reason.EXPIRED, Reason.NOT_YET, Reason.LIFETIME, Reason.AUDIENCE}
    | {Reason.SUBJECT, Reason.USER, Reason.API_KEY}
)

NOT_VALID = "The credentials are not valid."
# No error code where no credential was wrong, or for a method that is not supported (RFC 6750, section 3.1).
ASKED = ((b"www-authenticate", REALM),)
TWO = ((b"www-authenticate", REALM + b', error="invalid_request"'),)
INVALID = ((b"www-authenticate", REALM + b', error="invalid_token"'),)


def refused(reason: Reason) -> UnauthenticatedError:
    """For a credential that is not valid. The answer is the same for every reason."""
    return UnauthenticatedError(NOT_VALID, reason, reason in ATTEMPTS, INVALID)


def undecided(reason: Reason) -> UndecidedError:
    """As `refused`, but the key of the token may be on its way."""
    return UndecidedError(NOT_VALID, reason, reason in ATTEMPTS, INVALID)
