"""Settings of who may call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Literal

from pydantic import SecretStr

from gateway.auth.keys import HS256, SECRET_BYTES, UnfitKeyError, algorithms_for, read_pem, with_secret
from gateway.configfile.sections import ByOnlyKey, Items, ListOf, Section, SomeOf, find_repeats, setting
from gateway.configfile.substitution import InvalidValueError
from gateway.configfile.values import AnyText, Choice, Duration, Flag, Secret, Text
from gateway.configfile.web import HEADER_NAME, FetchedUrl, TlsSettings, crosses_in_clear, is_issuer_url, is_own_header
from gateway.upstream.proxies import ProxyChoice
from gateway.upstream.settings import BearerAuthSettings, HeaderAuthSettings

RegisteredClaim = Literal["exp", "sub", "iat", "nbf", "iss", "aud"]
SigningAlgorithm = Literal[
    "HS256",
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
    "Ed448",
]
FETCHED = ("jwks_url", "discovery")  # where keys come from that are not in the file
SOURCES = ("secret", *FETCHED, "public_key")
OF_FETCHED = ("jwks_auth", "jwks_refresh_s", "jwks_cooldown_s", "allow_http", "proxy", "tls")
SHARED_CLAIMS = frozenset({"exp", "iat", "nbf", "iss", "aud", "jti"})  # the same for many users, or new each time
OF_NOTHING = sha256().digest()


def _check_shared_secret(text: str) -> None:
    """Refuses what its owner publishes, such as a public key."""
    try:
        with_secret(text)
    except UnfitKeyError as exc:
        raise InvalidValueError(str(exc)) from None


def _check_public_key(text: str) -> str:
    try:
        read_pem(text)
    except UnfitKeyError as exc:
        raise InvalidValueError(str(exc)) from None
    return text


def _digest(text: str) -> bytes:
    digest = bytes.fromhex(text.removeprefix("sha256:"))
    if digest == OF_NOTHING:  # made of a variable that was not set: callers without a key would be let in
        raise InvalidValueError("is the hash of an empty key")
    return digest


def _token_header(text: str) -> str:
    """In lower case."""
    name = text.lower()
    if is_own_header(name):
        raise InvalidValueError("must be a header that only a proxy sets; this one has another meaning")
    return name


TokenHeader = Annotated[
    str, Text(HEADER_NAME, "must be the name of one header: letters, digits, and - _ .", _token_header)
]
SharedSecret = Annotated[SecretStr, Secret(bytes_=SECRET_BYTES, check=_check_shared_secret)]
PublicKey = Annotated[str, Text(convert=_check_public_key, title="public key in PEM", if_missing="")]
KeyHash = Annotated[
    bytes,
    Text(
        r"sha256:[0-9a-f]{64}",
        "must be sha256: and 64 hexadecimal digits, as toolgate hash-key prints it",
        _digest,
        title="`sha256:` and 64 hexadecimal digits",
        if_missing=bytes(32),
    ),
]


class JwtSettings(Section):
    """One issuer of tokens, with a secret that it shares with the gateway, or with the place of its public keys."""

    issuer: AnyText | None = setting(
        None,
        "The `iss` of its tokens. One entry with a secret may leave it out; it then accepts the tokens of any "
        "issuer that has no entry of its own.",
    )
    secret: SharedSecret | None = setting(None, "The shared secret for HS256, of at least 32 bytes.")
    jwks_url: FetchedUrl | None = setting(None, "The URL where the issuer publishes its keys as a JWK set.")
    discovery: Flag = setting(
        False,
        "Whether the gateway asks the issuer where its keys are (OpenID Connect Discovery, below the URL in `issuer`).",
    )
    public_key: PublicKey | None = setting(None, "The public key of the issuer, in PEM.")
    algorithms: ListOf[Choice[SigningAlgorithm]] = setting(
        [],
        "The algorithms that the issuer signs with; no other is accepted. Required, except with a secret: then it "
        "is HS256. `EdDSA` stands for `Ed25519` and `Ed448`, too.",
    )
    header: TokenHeader | None = setting(
        None,
        "The header in which a proxy passes on the token, such as `Cf-Access-Jwt-Assertion`, with or without `Bearer` "
        "before it. Tokens of this issuer are then accepted there only. By default, it is `Authorization`.",
    )
    audience: ListOf[AnyText] = setting(
        [],
        "A token must be for one of these (`aud`). With a secret, a token may also have no `aud`; if this list is "
        "empty, it must have none.",
    )
    audience_claim: AnyText | None = setting(
        None,
        "The claim that says whom a token is for, where that is not `aud`, such as `client_id`: text or, as "
        "`aud`, a list. Each token must have it. A token that has `aud` besides must be for one of `audience` by that, "
        "too.",
    )
    require: ListOf[Choice[RegisteredClaim]] = setting(
        ["exp", "sub"], "The claims that a token must have; `exp` and `sub` are always among them."
    )
    scope_claim: SomeOf[AnyText] = setting(
        "scope",
        "The claim that lists the caller's scopes, or several that do. A dot leads to a member of an object; names of "
        "members may have dots themselves.",
    )
    user_id_claim: AnyText | None = setting(
        None,
        "The claim that names the user. Each token must have it, and a call that names another user is refused. "
        "`user_info` of calls is then not passed on.",
    )
    leeway_s: Annotated[float, Duration("0s", "5m")] = setting(
        "30s", "By how much the issuer's clock and the gateway's may differ."
    )
    max_lifetime_s: Annotated[float, Duration("1s", "365d")] | None = setting(
        None, "How far in the future a token may expire."
    )
    jwks_refresh_s: Annotated[float, Duration("1s", "7d")] = setting(
        "5m", "How often the issuer's keys are fetched again."
    )
    jwks_cooldown_s: Annotated[float, Duration("1s", "1d")] = setting(
        "30s", "The shortest time between two fetches because of a token with an unknown key, and after a failed fetch."
    )
    jwks_auth: Annotated[BearerAuthSettings | HeaderAuthSettings, ByOnlyKey()] | None = setting(
        None,
        "A credential for fetching the keys, such as a service account's token. It is sent to the origin of "
        "`jwks_url`, or of `issuer` with `discovery`, and nowhere else.",
    )
    allow_http: Flag = setting(
        False,
        "Whether the keys may be fetched over http from another machine, as inside a cluster. Whoever can change "
        "what is sent there can let anybody in.",
    )
    proxy: ProxyChoice | None = setting(
        None, "The proxy for fetching the keys. By default, the one at the top of the file."
    )
    tls: TlsSettings | None = setting(
        None, "Certificates for fetching the keys. By default, the authorities that the system trusts."
    )

    @property
    def authorization_server(self) -> str | None:
        """The issuer, if it is a URL from which programs can find out how to get a token."""
        if self.issuer is None or not (self.discovery or self.jwks_url):
            return None
        return self.issuer if is_issuer_url(self.issuer, allow_http=self.allow_http) else None

    def problems(self) -> Iterator[tuple[str, str]]:
        missing = [claim for claim in ("exp", "sub") if claim not in self.require]
        if missing:
            yield "require", f"must also list {' and '.join(missing)}"
        if "aud" in self.require and not self.audience:
            yield "require", "lists aud, but without audience no token with aud is accepted"
        if self.audience_claim is not None and not self.audience:
            yield "audience_claim", "needs audience beside it: those that the claim may name"
        if self.user_id_claim in SHARED_CLAIMS:
            yield "user_id_claim", f"must be a claim that says who the user is, which {self.user_id_claim} never does"
        sources = [name for name in SOURCES if getattr(self, name) not in (None, False)]
        if len(sources) != 1:
            at = sources[1] if sources else ""
            yield at, "must have exactly one of secret, jwks_url, discovery: true and public_key"
        elif self.secret is None:
            yield from self._problems_of_public_keys(sources[0])
        elif self.algorithms not in ((), (HS256,)):
            yield "algorithms", "must be HS256 alone, or left out, with a secret"
        if not any(name in sources for name in FETCHED):
            for name in self.model_fields_set.intersection(OF_FETCHED):
                yield name, "has no effect on keys that are not fetched"

    def _problems_of_public_keys(self, source: str) -> Iterator[tuple[str, str]]:
        """An issuer with public keys signs for many: its tokens must be for us, and algorithms fit the kind of key."""
        if self.issuer is None:
            yield source, "needs issuer beside it"
        elif self.discovery and not is_issuer_url(self.issuer, allow_http=self.allow_http):
            yield (
                "issuer",
                "must be an https URL without query, because of discovery; http is for loopback only, unless "
                "allow_http is true",
            )
        if self.jwks_url and crosses_in_clear(self.jwks_url) and not self.allow_http:
            yield "jwks_url", "must be an https URL; http is for loopback addresses only, unless allow_http is true"
        if not self.audience:
            yield source, "needs audience beside it, or tokens for other services would be accepted here"
        if not self.algorithms:
            yield source, "needs algorithms beside it: those its tokens are signed with, such as [RS256]"
        elif HS256 in self.algorithms:
            yield "algorithms", "must not have HS256, which is for a secret; this issuer has public keys"
        elif self.public_key:
            fitting = algorithms_for(read_pem(self.public_key))
            if not fitting.issuperset(self.algorithms):
                yield "algorithms", f"must be algorithms of the public key: {', '.join(sorted(fitting))}"


def issuers_that_clash(entries: Sequence[JwtSettings | None]) -> Iterator[tuple[int, str]]:
    """Finds entries among which a token could not choose."""
    for index, _ in find_repeats(entries, attrgetter("issuer", "header")):
        entry = entries[index]
        has_name = entry is not None and entry.issuer
        yield (
            index,
            "has the issuer of an earlier entry" if has_name else "has no issuer, and neither has an earlier entry",
        )


class ApiKeySettings(Section):
    """One API key. Callers send it in the header `OXP-API-Key` or `OTC-API-Key`, or as a bearer token."""

    id: Annotated[str, Text("[A-Za-z0-9][A-Za-z0-9._-]{0,63}", "must be letters, digits, and . _ -, at most 64")] = (
        setting(..., "The owner of the key. Two keys may have the same id, so that one can replace the other.")
    )
    hash: KeyHash = setting(..., "The hash that `toolgate hash-key` prints for the key.")
    scopes: ListOf[AnyText] = setting([], "The scopes of the key's owner.")


def keys_that_clash(entries: Sequence[ApiKeySettings | None]) -> Iterator[tuple[int, str]]:
    """Finds keys that would be two callers; a hash of zeros stands in for one that is missing."""
    present = [entry if entry and any(entry.hash) else None for entry in entries]
    return ((index, "has the hash of an earlier entry") for index, _ in find_repeats(present, attrgetter("hash")))


class AuthSettings(Section):
    """How callers prove who they are: with tokens, with API keys, or with either."""

    jwt: Annotated[tuple[JwtSettings, ...], Items(issuers_that_clash, at_least=1)] | None = setting(
        None, "The issuers whose tokens are accepted."
    )
    api_keys: Annotated[tuple[ApiKeySettings, ...], Items(keys_that_clash, at_least=1)] | None = setting(
        None, "The API keys that are accepted."
    )

    @property
    def authorization_servers(self) -> tuple[str, ...]:
        """The issuers that programs can ask for a token."""
        issuers = (entry.authorization_server for entry in self.jwt or () if entry.header is None)
        return tuple(issuer for issuer in issuers if issuer is not None)

    def issuer(self, name: str) -> JwtSettings | None:
        """The entry of an issuer, if it has one of its own."""
        return next((entry for entry in self.jwt or () if entry.issuer == name), None)

    def problems(self) -> Iterator[tuple[str, str]]:
        if not self.jwt and not self.api_keys:
            yield "jwt", "must have jwt or api_keys; to let everybody in, write 'auth: none'"
