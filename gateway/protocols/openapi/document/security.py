"""Which credentials an operation's calls take: the backend's own, or what callers supply (OpenAPI 3.2, Security)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

from msgspec.structs import replace

from gateway.core.model import AuthorizationRequirement, Json, JsonObject, Requirements
from gateway.core.wire import is_token
from gateway.protocols.openapi.document.curation import Terms
from gateway.protocols.openapi.document.document import Document
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.plan import Access, KeyPlace, LentCredential, OperationError

Place = Literal["header", "query", "cookie"]
AccessChoice = tuple[Access, Requirements, tuple[str, ...]]
# Headers that a document may not have us put a credential into: they frame the message, or belong to the connection.
NOT_FOR_KEYS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"}
    | {"cookie", "keep-alive"}
)
AUTHORIZATION = "authorization"
BEARER: tuple[Place, str] = ("header", AUTHORIZATION)  # where all that is no API key goes
BEARERS = ("oauth2", "openIdConnect")  # types of schemes whose tokens go as bearer tokens (RFC 6750)


class _UncoveredError(Exception):
    """An alternative that takes a credential nobody has; the text says which."""


class _SchemeCredential(NamedTuple):
    """One credential: where it goes, and whose it is."""

    where: Place
    name: str  # in lower case if it is that of a header
    lent: LentCredential | None = None
    key: KeyPlace | None = None


def access_of(operation: Operation, document: Document, terms: Terms) -> AccessChoice:
    """The credentials of an operation's calls, what its callers must lend, and what an operator should know.

    Of several alternatives it is the first for which there is everything. Calls without a credential come after those.
    """
    access, requires, notes = _choose_access(operation.security, document, terms)
    names = sorted({name for where, name in credential_names(operation, document, terms) if where != "header"})
    return (replace(access, key_names=tuple(names)) if names else access), requires, notes


def _choose_access(alternatives: Sequence[JsonObject] | None, document: Document, terms: Terms) -> AccessChoice:
    if alternatives is None:  # many documents leave it out, and the API wants a credential all the same
        return _as_it_is(document, terms, ())
    reasons: list[str] = []
    for alternative in alternatives:
        if alternative:
            try:
                return *_cover(alternative, document, terms), ()
            except _UncoveredError as exc:
                reasons.append(str(exc))
    if len(reasons) < len(alternatives) or not alternatives:
        return Access(schemes=()), Requirements(), ()
    return _as_it_is(document, terms, reasons)


def _as_it_is(document: Document, terms: Terms, reasons: Sequence[str]) -> AccessChoice:
    """The one credential of the backend's for an operation that asks for none of what there is, for these reasons."""
    access = Access()
    if terms.auth == "schemes" or (reasons and not terms.auth):
        access = Access(schemes=())
    elif terms.auth == "api_key" and not terms.auth_in:
        places = {place for name in _declared(document) if (place := _place_of(name, document)) is not None}
        access = Access(keys=tuple(KeyPlace(where=where, name=name) for where, name in places))
        if len(places) != 1:
            access, reasons = Access(schemes=()), (*reasons, "the document does not say where the key goes")
    if not reasons:
        return access, Requirements(), ()
    how = "It is called without a credential" if access.schemes == () else "The backend's auth goes along as it is"
    return access, Requirements(), (f"{how}: {'; '.join(reasons)}.",)


def credential_names(operation: Operation, document: Document, terms: Terms) -> frozenset[tuple[str, str]]:
    """Where credentials may stand, as pairs of header, query or cookie and a name: no argument may be sent there.

    Names of headers are in lower case.
    """
    places: set[tuple[str, str]] = {BEARER}
    if (own := _own_place(terms)) is not None:
        places.add(own)
    for alternative in operation.security or ():
        for name in alternative:
            if (place := _place_of(name, document)) is not None:
                places.add(_place(*place))
    return frozenset(places)


def _cover(alternative: JsonObject, document: Document, terms: Terms) -> tuple[Access, Requirements]:
    """All that an alternative takes. Raises _UncoveredError."""
    credentials = {name: _credential(name, scheme, terms) for name, scheme in _schemes(alternative, document)}
    places = [(credential.where, credential.name) for credential in credentials.values()]
    if len(set(places)) < len(places):
        raise _UncoveredError(f"two credentials of {_joined(alternative)} would be sent in the same place")
    own = [name for name, credential in credentials.items() if credential.lent is None]
    if len(own) > 1 and terms.auth != "schemes":
        raise _UncoveredError(f"{_joined(own)} need a credential each, and auth has only one")
    lent = tuple(credential.lent for credential in credentials.values() if credential.lent is not None)
    keys = tuple(credential.key for credential in credentials.values() if credential.key is not None)
    schemes = None if own and terms.auth != "schemes" else tuple(own)
    tokens = {
        credential.lent.id: _scopes(alternative[name])
        for name, credential in credentials.items()
        if credential.lent is not None and not credential.lent.is_secret
    }
    requires = Requirements(
        authorization=tuple(AuthorizationRequirement(id=id_, scopes=scopes) for id_, scopes in tokens.items()),
        secrets=tuple(dict.fromkeys(credential.id for credential in lent if credential.is_secret)),
    )
    return Access(schemes=schemes, keys=keys, lent=lent), requires


def _credential(name: str, scheme: JsonObject, terms: Terms) -> _SchemeCredential:
    """Who has a credential for a scheme, the caller if the operator says so. Raises _UncoveredError."""
    key_place = _key_place(scheme)
    if name in terms.lent_tokens or name in terms.lent_secrets:
        is_secret = name not in terms.lent_tokens
        id_ = terms.lent_secrets[name] if is_secret else terms.lent_tokens[name]
        if key_place is not None:
            where, key_name = key_place
            return _SchemeCredential(
                where, key_name, LentCredential(id=id_, is_secret=is_secret, where=where, name=_name(scheme))
            )
        if _takes_bearer(scheme):
            return _SchemeCredential(*BEARER, LentCredential(id=id_, is_secret=is_secret))
        raise _UncoveredError(f"{name} needs a credential that callers cannot supply")
    own = _own_credential(name, scheme, key_place, terms)
    if own is None:
        raise _UncoveredError(f"{name} needs a credential, and none is configured")
    return own


def _own_credential(
    name: str, scheme: JsonObject, key_place: tuple[Place, str] | None, terms: Terms
) -> _SchemeCredential | None:
    """The backend's own credential for a scheme."""
    if terms.auth == "schemes":
        key = None if key_place is None else KeyPlace(where=key_place[0], name=_name(scheme), scheme=name)
        return _SchemeCredential(*(key_place or BEARER), key=key) if name in terms.schemes else None
    if terms.auth == "api_key" and not terms.auth_in and key_place is not None:
        return _SchemeCredential(*key_place, key=KeyPlace(where=key_place[0], name=_name(scheme)))
    place = _own_place(terms)
    if key_place is not None:
        fits = place == key_place
    elif _http_word(scheme) == "basic":
        fits = terms.auth == "basic"
    else:
        fits = place == BEARER and terms.auth != "basic" and _takes_bearer(scheme)
    return _SchemeCredential(*place) if place is not None and fits else None


def _own_place(terms: Terms) -> tuple[Place, str] | None:
    """Where the one credential of the backend's goes; None if it has none."""
    match terms.auth:
        case "bearer" | "basic":
            return BEARER
        case "header":
            return "header", terms.auth_header
        case "api_key" if terms.auth_in:
            return _place(terms.auth_in, terms.auth_name)
    return None


def _schemes(alternative: JsonObject, document: Document) -> Iterator[tuple[str, JsonObject]]:
    for name in alternative:
        scheme = _scheme(name, document)
        if scheme is None:
            raise _UncoveredError(f"{name} is no security scheme of the document")
        yield name, scheme


def _declared(document: Document) -> JsonObject:
    schemes = document.components.get("securitySchemes")
    return schemes if isinstance(schemes, dict) else {}


def _place_of(name: str, document: Document) -> tuple[Place, str] | None:
    """Where the key of a scheme goes, as the document has it; None if it is of another type."""
    scheme = _scheme(name, document)
    return None if scheme is None or (place := _key_place(scheme)) is None else (place[0], _name(scheme))


def _scheme(name: str, document: Document) -> JsonObject | None:
    """A security scheme of the document; None if it has none of that name that can be read."""
    scheme = _declared(document).get(name)
    try:
        return document.resolve(scheme) if isinstance(scheme, dict) else None
    except OperationError:
        return None


def _key_place(scheme: JsonObject) -> tuple[Place, str] | None:
    """Where the API key of a scheme goes; None if it is of another type, or nothing may go there."""
    where, name = scheme.get("in"), scheme.get("name")
    if scheme.get("type") != "apiKey" or where not in ("header", "query", "cookie"):
        return None
    if not isinstance(name, str) or not name or (where != "query" and not is_token(name)):
        return None
    place = _place(cast(Place, where), name)
    return None if where == "header" and place[1] in NOT_FOR_KEYS else place


def _place(where: Place, name: str) -> tuple[Place, str]:
    return where, name.lower() if where == "header" else name


def _name(scheme: JsonObject) -> str:
    """The name of a key as the document has it."""
    return str(scheme["name"])


def _takes_bearer(scheme: JsonObject) -> bool:
    return scheme.get("type") in BEARERS or _http_word(scheme) == "bearer"


def _http_word(scheme: JsonObject) -> str:
    """The authentication scheme of HTTP (RFC 9110, 11.1); empty for other types."""
    word = scheme.get("scheme")
    return word.lower() if scheme.get("type") == "http" and isinstance(word, str) else ""


def _scopes(listed: Json) -> tuple[str, ...] | None:
    scopes = tuple(scope for scope in listed if isinstance(scope, str)) if isinstance(listed, list) else ()
    return scopes or None


def _joined(names: Mapping[str, Json] | Sequence[str]) -> str:
    return " and ".join(names)
