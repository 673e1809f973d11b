"""Tools as callers see them: a tool of a backend under a route, with what calling it takes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import Self

from msgspec.structs import replace

from gateway.core.model import Decode, Json, Requirements, ToolDefinition, ToolRef
from gateway.core.ports import Backend, Target
from gateway.core.tool_names import version_key
from gateway.schemas import CompiledSchema, Finding, SchemaError

NULL = {"type": "null"}  # what a tool returns that returns nothing
MAX_GLOBS = 100_000  # kept ready for use: as many as a large configuration has routes


class InputCheck(StrEnum):
    """What happens to arguments that do not fit their tool's schema.

    They are refused; or refused unless they fit in another form (`schemas.coercion`); or sent as they are.
    """

    STRICT = "strict"
    COERCE = "coerce"
    OFF = "off"


class OutputCheck(StrEnum):
    """What happens when a tool's value breaks its output schema."""

    OFF = "off"
    WARN = "warn"
    FAIL = "fail"


@lru_cache(MAX_GLOBS)
def matcher(glob: str) -> Callable[[str], bool]:
    """Tells which texts match a glob of `*` and `?`. `fnmatch` compiles a glob each time if there are more than 256."""
    beginning = glob.removesuffix("*")
    if not {"*", "?"} & set(beginning):
        return glob.__eq__ if beginning == glob else lambda text: text.startswith(beginning)
    pattern = re.compile(translate(glob))
    return lambda text: pattern.match(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Publishes, or with `deny` hides, the tools of one backend that match a glob."""

    tools: str  # the glob, matched on `Toolkit.Tool`, or with an `@` in it on `Toolkit.Tool@x.y.z`
    backend_name: str
    backend: Backend
    timeout_s: float
    deny: bool = False
    scopes: frozenset[str] = frozenset()  # all of which a caller needs
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # values by id, which win over the caller's
    context: frozenset[str] = frozenset()  # ids of tokens and secrets that a tool may newly ask for
    authorization_urls: Mapping[str, str] = field(default_factory=dict)  # where a user grants access, by provider
    idempotent: bool = False  # a call may be sent twice
    validate_input: InputCheck = InputCheck.STRICT
    validate_output: OutputCheck = OutputCheck.WARN
    forward_headers: tuple[bytes, ...] = ()  # names of the caller's headers that are passed on
    # For deferred tools: whether a timeout cancels the call, how its text is read and how that of a failure begins, and
    # which configurations callers may choose.
    cancel_on_timeout: bool = False
    decode: Decode = "auto"
    failure_patterns: tuple[re.Pattern[str], ...] = ()
    config_ids: frozenset[str] = frozenset()

    def matches(self, tool: str, version: str) -> bool:
        """Whether this route speaks of that version of that tool."""
        return matcher(self.tools)(f"{tool}@{version}" if "@" in self.tools else tool)

    @property
    def names_versions(self) -> bool:
        return "@" in self.tools

    @property
    def names_toolkit(self) -> bool:
        """Whether it speaks of the tools of one toolkit, which it writes out: `Bank.*`, and neither `*` nor `Ban*`."""
        toolkit, dot, _ = self.tools.partition(".")
        return bool(dot) and not {"*", "?", "@"} & set(toolkit)


@dataclass(slots=True, eq=False, kw_only=True)
class PublishedTool:
    """One version of one tool as callers see it, with all that running it takes."""

    definition: ToolDefinition  # without the secrets that the route supplies
    requires: Requirements  # what the tool server asks for
    route: Route
    schema: CompiledSchema  # of the arguments
    # Ids of tokens and secrets that are not passed on: the tool server did not ask for them when it was first listed.
    withheld: frozenset[str] = frozenset()
    shows_output: bool = True  # its output schema is listed; values are checked against it all the same
    encoded: dict[str, bytes] = field(default_factory=dict, repr=False)  # a cache of the listed forms
    id: str = field(init=False)
    version_key: tuple[int, int, int] = field(init=False)
    asks: bool = field(init=False)  # it requires something
    checks_output: bool = field(init=False)  # values are checked
    promises: bool = field(init=False)  # callers of its list may rely on what it says of values
    backend: Backend = field(init=False, repr=False)
    target: Target = field(init=False, repr=False)
    output: CompiledSchema = field(init=False, repr=False)  # of the value

    def rename_ref(self, ref: ToolRef) -> ToolRef:
        """What asks for this tool by its name, as a caller writes it who asks by its id."""
        is_newest = ref.tool == self.definition.name
        return ToolRef(tool=self.definition.tool, version=ref.version if is_newest else self.definition.version)

    def __post_init__(self) -> None:
        definition, backend = self.definition, self.route.backend_name
        self.id, self.backend = definition.id, self.route.backend  # made once, for calls
        self.version_key = version_key(definition.version)  # and for snapshots
        self.asks = self.requires != Requirements()
        output_schema = definition.output_schema
        self.checks_output = output_schema != {} and self.route.validate_output is not OutputCheck.OFF
        self.promises = bool(output_schema) and self.shows_output and self.route.validate_output is OutputCheck.FAIL
        self.output = CompiledSchema(NULL if output_schema is None else output_schema)
        self.target = Target(definition.tool, definition.version, backend, f"{backend}/{self.route.tools}")

    # As the `_Versions` of a router: nearly all tools have one version.

    @property
    def newest(self) -> PublishedTool:
        return self

    @property
    def ascending(self) -> Sequence[PublishedTool]:
        return (self,)

    def of_version(self, version: str) -> PublishedTool | None:
        return self if version == self.definition.version else None

    def latest_for(self, scopes: frozenset[str]) -> PublishedTool | None:
        return self if self.route.scopes <= scopes else None

    @property
    def listed(self) -> ToolDefinition:
        """The definition as callers see it, with what its route says of it."""
        definition, route = self.definition, self.route
        if not self.shows_output:
            definition = replace(definition, output_schema={})
        if route.idempotent and "idempotent" not in definition.hints:
            definition = replace(definition, hints={**definition.hints, "idempotent": True})
        return replace(definition, enforces_output=self.promises)

    def with_name(self, name: str) -> PublishedTool:
        """The same tool under another name."""
        return dataclasses.replace(self, definition=replace(self.definition, name=name), encoded={})

    @classmethod
    def publish(
        cls,
        definition: ToolDefinition,
        route: Route,
        schema: CompiledSchema,
        withheld: frozenset[str] = frozenset(),
        *,
        shows_output: bool = True,
    ) -> Self:
        """Puts a discovered tool under a route."""
        requires = definition.requires
        needed = tuple(secret for secret in requires.secrets if secret not in route.secrets)
        if needed != requires.secrets:
            definition = replace(definition, requires=replace(requires, secrets=needed))
        return cls(
            definition=definition,
            requires=requires,
            route=route,
            schema=schema,
            withheld=withheld,
            shows_output=shows_output,
        )

    def output_findings(self, value: Json, size: int) -> list[Finding] | None:
        """What in a value breaks the output schema; empty when nothing does. `size` is at least that of its text.

        None where finding out could hold up the event loop: then `output` has to be asked in another process.
        """
        promised = self.definition.output_schema
        if promised is None:  # it returns nothing (OTC 1.0 and OXP 1.0, Tool)
            return [] if value is None else [Finding((), "there is a value, of a tool that returns none")]
        if not promised:
            return []
        try:
            return self.output.findings_now(value, size)
        except SchemaError as exc:
            return [Finding((), f"The output schema cannot be used: {exc.reason}")]
