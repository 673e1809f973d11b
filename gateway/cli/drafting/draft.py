"""What the user of `toolgate init` wants, what was found, and how that is written as YAML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from gateway.cli.output import FAILED, USAGE, CommandError
from gateway.configfile.web import is_loopback
from gateway.core.errors import ConfigError
from gateway.settings import Config
from gateway.settings import load as config

# Words of titles and hosts that say nothing about what is there.
EMPTY_WORDS = frozenset(
    {"a", "an", "and", "api", "apis", "demo", "description", "documentation", "example", "for", "http", "localhost"}
    | {"mcp", "of", "official", "openapi", "public", "rest", "sample", "server", "service", "spec", "specification"}
    | {"swagger", "the", "tools", "v", "www"}
)
MAX_WORDS = 2  # of a title, in a name
MAX_NAME = 32  # characters of a name made of a title
ANY_NAME = "tools"  # where nothing says what is there
ASKED_AS = "toolgate_init"  # the name of a backend until it has one
OWNER = "00000000-0000-0000-0000-000000000001"  # the tenant of RCRT's server as it is delivered
WORKSPACE = "workspace:tools"
MAX_ROUTES = 20  # with more toolkits than that, one route publishes all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user says: `place` is a URL or the path of a document, `folder` where the configuration will lie.

    `token_env` is a variable with the token that the server wants. `owner_id` and `workspace` are for RCRT. The rest is
    for APIs: the choice of operations, where these are called, and whether a document itself is at the URL.
    """

    place: str
    folder: Path
    name: str | None = None
    token_env: str | None = None
    owner_id: str = OWNER
    workspace: str = WORKSPACE
    methods: Sequence[str] = ()
    tags: Sequence[str] = ()
    operations: Sequence[str] = ()
    max_tools: int | None = None
    calls_url: str | None = None
    allow_http: bool = False
    is_document: bool = False

    @property
    def chooses_operations(self) -> bool:
        """Whether it says anything that is for APIs alone."""
        return bool(self.methods or self.tags or self.operations or self.max_tools is not None or self.calls_url)

    @property
    def is_url(self) -> bool:
        return re.match("[A-Za-z][A-Za-z0-9+.-]*:", self.place) is not None

    @property
    def base(self) -> str:
        """The URL without query and slash at its end."""
        parts = urlsplit(self.place)
        return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")

    @property
    def auth(self) -> list[str]:
        """The YAML of the credential for the server."""
        return [f'auth: {{bearer: "${{env:{self.token_env}}}"}}'] if self.token_env else []

    @property
    def token(self) -> str:
        """The token itself, which is never written; empty if there is none."""
        return os.environ.get(self.token_env, "") if self.token_env else ""

    @property
    def variables(self) -> Mapping[str, str]:
        """The variable of the token, with what belongs there."""
        return {self.token_env: "the token that the tool server wants"} if self.token_env else {}

    @property
    def is_near(self) -> bool:
        """Whether the server is on this machine."""
        return is_loopback(urlsplit(self.place).hostname or "")


class Draft(NamedTuple):
    """A backend for a configuration: its YAML, indented as below `backends`, and what to say about it.

    `form` is what it speaks, for people. `tools` are the ids `Toolkit.Tool` of what it lists. `variables` are
    environment variables that it names, each with what belongs there. Those of `guessed` are named after words of the
    server's: whatever the shell has under such a name may be meant for another.
    """

    protocol: str
    form: str
    name: str
    yaml: str
    tools: tuple[str, ...]
    said: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    guessed: frozenset[str] = frozenset()

    @property
    def routes(self) -> Iterator[str]:
        """The patterns that publish its tools: one for each toolkit."""
        toolkits = sorted({tool.partition(".")[0] for tool in self.tools})
        if 0 < len(toolkits) <= MAX_ROUTES:
            yield from (f"{toolkit}.*" for toolkit in toolkits)
        else:
            yield "*"


class NotSpokenError(Exception):
    """A server does not speak a protocol; the text says what it answered. `wants_credential`: 401 or 403."""

    def __init__(self, reason: str, *, wants_credential: bool = False) -> None:
        super().__init__(reason)
        self.wants_credential = wants_credential


class CredentialWantedError(CommandError):
    """A server wants to know who asks."""

    def __init__(self, reason: str, *hints: str, has_token: bool) -> None:
        if has_token:
            super().__init__(FAILED, f"The tool server does not accept the token: {reason}.", *hints)
        else:
            hint = "Export its token as a variable, and name that with --token-env, such as --token-env TOOL_TOKEN."
            super().__init__(FAILED, f"The tool server needs a credential: {reason}.", hint, *hints)


class ForeignServerError(CommandError):
    """A document names another origin for its calls than the user has. Nothing was sent to `url`, which is there."""

    def __init__(self, url: str, place: str, *, is_url: bool, has_token: bool) -> None:
        self.url = url
        named = "another origin than its own" if is_url else "a server"
        sent = "Calls and the token" if has_token else "Calls"
        origin = urlsplit(place)
        stay = f", or --url {origin.scheme}://{origin.netloc} to call its own" if is_url else ""
        super().__init__(
            USAGE,
            f"The document at {place} names {named} for calls: {url}. Nothing was sent there.",
            f"{sent} go there only if you say so: --url {url}{stay}.",
        )


class Drafter(Protocol):
    """A module that drafts backends of one protocol, or of several."""

    async def draft(self, wanted: Wanted, protocol: str) -> Draft:
        """Asks the server. Raises NotSpokenError, CommandError."""
        ...


def checked(text: str, folder: Path, without: Collection[str] = ()) -> Config:
    """Reads what is to be written to a folder, as if these variables were not set. Raises CommandError."""
    env = {name: value for name, value in os.environ.items() if name not in without}
    try:
        return config.read(text, source="the configuration", base=folder, env=env, allow_missing_env=True)
    except ConfigError as exc:
        raise CommandError(USAGE, "No configuration can be made of this:", *exc.problems) from exc


def quoted(text: str) -> str:
    """Text as a YAML scalar in quotes, in which nothing is put in."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def backend_yaml(name: str, protocol: str, lines: Iterable[str]) -> str:
    """A backend as it stands below `backends`."""
    return "".join([f"  {name}:\n    protocol: {protocol}\n", *(f"    {line}\n" for line in lines)])


def name_of(title: str) -> str:
    """A name for a backend from the words of a title that say something: `Swagger Petstore 3.0`, `petstore`."""
    first = re.split(r"[+:(|,]|\s-\s", title.lower().replace("'s ", " "))[0]
    words = [word for word in re.findall("[a-z0-9]+", first) if word not in EMPTY_WORDS]
    telling = [word for word in words if not re.fullmatch("v?[0-9]+", word)]
    return "_".join(telling[:MAX_WORDS])[:MAX_NAME].strip("_")


def name_at(url: str) -> str:
    """A name for a backend from the host of its URL: `https://search.corp.example`, `search`."""
    host = urlsplit(url).hostname or ""
    if re.fullmatch(r"[0-9.]+|.*:.*", host):
        return ANY_NAME
    return next((name for name in map(name_of, host.split(".")[:2]) if name), ANY_NAME)
