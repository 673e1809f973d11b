"""How single values are read: text, numbers, durations, sizes, secrets. Each is an annotation for pydantic.

Which plain scalars are text follows YAML 1.2 (core schema, section 10.3.2): `no` is text, `true` and `8080` are not.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, SecretStr
from pydantic_core import CoreSchema, core_schema

from gateway.configfile.cursor import NULLS, Cursor
from gateway.configfile.substitution import InvalidValueError, Scalar, refers
from gateway.core.did_you_mean import suggestion

Schema = dict[str, Any]
T = TypeVar("T")

NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)")
NOT_TEXT = NULLS | {"true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN", ".NAN"}
SUBSTITUTED = r"\$\{(env|file):"  # in a schema: a value that is known only when the file is loaded


class Value(ABC):
    """A value without parts. `title` says in the schema and in the reference what may be written."""

    title: str = ""
    if_missing: Any = None  # what stands in for a variable that is missing
    always_judged = False  # whether problems of a stand-in with other keys count: any value would have them
    # Looks a value up where the file lies, or elsewhere in it. Raises InvalidValueError.
    resolve: Callable[[Any, Cursor], Any] | None = None

    def read(self, value: Any) -> Any:
        """Reads a value of a file, or text in code such as a default; anything else in code is the value itself."""
        if not isinstance(value, Cursor):
            return self.parse(Scalar(value)) if isinstance(value, str) else value
        if value.raw and self.holds_secret(value.raw):
            value.context.plain_secrets[value.path] = value.node.mark
        scalar = value.scalar()
        if scalar.missing:
            if not self.always_judged:
                value.context.stand_ins.add(value.path)
            return self.stand_in(value.raw or "")
        try:
            parsed = self.parse(scalar)
            return parsed if self.resolve is None else self.resolve(parsed, value)
        except InvalidValueError as exc:
            raise value.refuse(str(exc)) from None

    @abstractmethod
    def parse(self, scalar: Scalar) -> Any:
        """Reads one value. Raises InvalidValueError."""

    def stand_in(self, raw: str) -> Any:
        """A value to go on with where a variable is missing and that was allowed; `raw` is what the file says."""
        return raw if self.if_missing is None else self.if_missing

    def holds_secret(self, raw: str) -> bool:
        """Whether a value as the file has it, before substitution, is or holds a secret."""
        return False

    @abstractmethod
    def schema(self) -> Schema:
        """Describes what may be written, without the title."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return {**({"title": self.title} if self.title else {}), **self.schema()}


@dataclass(eq=False)
class Text(Value):
    """Any text, or text of a certain form."""

    pattern: str | None = None
    must: str = "must not be empty"  # the form in words
    convert: Callable[[str], Any] = str  # what text of the form means; raises InvalidValueError, as `resolve` does
    _: KW_ONLY
    any_scalar: bool = False  # it may look like a number, too
    title: str = ""
    if_missing: Any = None  # used where a variable is missing; without one, the expression itself is
    resolve: Callable[[Any, Cursor], Any] | None = None

    def __post_init__(self) -> None:
        self.title = self.title or ("text" if self.pattern is None else self.must.removeprefix("must be "))

    def parse(self, scalar: Scalar) -> Any:
        if not self.matches(scalar.text):
            raise InvalidValueError(self.must)
        if not self.any_scalar:
            _require_text(scalar)
        return self.convert(scalar.text)

    def matches(self, text: str) -> bool:
        """Whether text has the form."""
        return bool(text) and (self.pattern is None or re.fullmatch(self.pattern, text) is not None)

    def schema(self) -> Schema:
        return {"type": "string", **({"pattern": _or_substituted(self.pattern)} if self.pattern else {"minLength": 1})}


def _names_a_backend(value: str, cursor: Cursor) -> str:
    names = cursor.context.names("backends")
    if value not in names:
        raise InvalidValueError(f"names no backend of this file{suggestion(value, names)}")
    return value


AnyText = Annotated[str, Text()]
Uuid = Annotated[str, Text(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "must be a UUID")]
BackendName = Annotated[str, Text(title="name of a backend of this file", resolve=_names_a_backend)]


@dataclass(eq=False, kw_only=True)
class Secret(Value):
    """A secret."""

    characters: int = 1  # at least
    bytes_: int = 1  # at least
    header: bool = False  # fit to be sent in an HTTP header
    check: Callable[[str], object] = str  # raises InvalidValueError for any other reason to refuse it
    title: str = "secret"

    def __post_init__(self) -> None:
        if self.characters > 1:
            self.title += f" of at least {self.characters} characters"
        elif self.bytes_ > 1:
            self.title += f" of at least {self.bytes_} bytes"

    def parse(self, scalar: Scalar) -> SecretStr:
        text = scalar.text
        _require_text(scalar)
        if not text:
            raise InvalidValueError("must not be empty")
        if len(text) < self.characters:
            raise InvalidValueError(f"must have at least {self.characters} characters")
        if len(text.encode()) < self.bytes_:
            raise InvalidValueError(f"must have at least {self.bytes_} bytes")
        if self.header and re.fullmatch(r"[!-~]+", text) is None:
            raise InvalidValueError("must be visible ASCII without spaces, since it is sent in a header")
        self.check(text)
        return SecretStr(text)

    def holds_secret(self, raw: str) -> bool:
        return not refers(raw)

    def stand_in(self, raw: str) -> SecretStr:
        return SecretStr(raw.ljust(max(self.characters, self.bytes_), "_"))

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))  # dumped as SecretStr is


class _Flag(Value):
    """`true` or `false`, and none of the other eighteen spellings of YAML 1.1."""

    title = "true or false"
    if_missing = False

    def parse(self, scalar: Scalar) -> bool:
        if scalar.quoted or scalar.text not in ("true", "false"):
            raise InvalidValueError("must be true or false, without quotes")
        return scalar.text == "true"

    def schema(self) -> Schema:
        return {"type": ["boolean", "string"], "pattern": SUBSTITUTED}


Flag = Annotated[bool, _Flag()]


class Integer(Value):
    """A whole number between two bounds, both allowed."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.title = f"whole number from {low} to {high}"
        self.if_missing = low

    def parse(self, scalar: Scalar) -> int:
        if scalar.quoted:
            raise InvalidValueError(f"must be a {self.title}, without quotes")
        is_number = re.fullmatch(r"0|-?[1-9][0-9]{0,17}", scalar.text) is not None
        if not is_number or not self.low <= int(scalar.text) <= self.high:
            raise InvalidValueError(f"must be a {self.title}")
        return int(scalar.text)

    def schema(self) -> Schema:
        return {"type": ["integer", "string"], "minimum": self.low, "maximum": self.high, "pattern": SUBSTITUTED}


class Ratio(Value):
    """A number from 0 to 1, both allowed."""

    title = "number from 0 to 1"
    if_missing = 0.0

    def parse(self, scalar: Scalar) -> float:
        if scalar.quoted or re.fullmatch(r"0|1|[01]\.[0-9]{1,9}", scalar.text) is None or float(scalar.text) > 1:
            raise InvalidValueError("must be a number from 0 to 1, such as 0.01, without quotes")
        return float(scalar.text)

    def schema(self) -> Schema:
        return {"type": ["number", "string"], "minimum": 0, "maximum": 1, "pattern": SUBSTITUTED}


class Range(Value):
    """A number with a unit between two bounds, both allowed."""

    noun: ClassVar[str]
    examples: ClassVar[str]
    units: ClassVar[Mapping[str, int]]

    def __init__(self, low: str, high: str) -> None:
        self.pattern = f"[0-9]{{1,15}}({'|'.join(self.units)})"
        self.low, self.high = self._number(low), self._number(high)
        self.title = f"{self.noun} from {low} to {high}"
        self.if_missing = self.parse(Scalar(low))

    def parse(self, scalar: Scalar) -> float:
        if re.fullmatch(self.pattern, scalar.text) is None:
            raise InvalidValueError(f"must be a {self.noun} such as {self.examples}")
        number = self._number(scalar.text)
        if not self.low <= number <= self.high:
            raise InvalidValueError(f"must be a {self.title}")
        return number

    def schema(self) -> Schema:
        return {"type": "string", "pattern": _or_substituted(self.pattern)}

    def _number(self, text: str) -> int:
        digits = text.rstrip("".join(self.units))
        return int(digits) * self.units[text[len(digits) :]]


class Duration(Range):
    """A time such as `500ms` or `1h`, in seconds."""

    noun, examples = "duration", "500ms, 30s, 5m, 1h or 1d"
    units: ClassVar = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

    def parse(self, scalar: Scalar) -> float:
        return super().parse(scalar) / 1000


class Size(Range):
    """A size such as `512` or `64KiB`, in bytes."""

    noun, examples = "size", "512, 64KiB, 1MiB or 1GiB"
    units: ClassVar = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}

    def schema(self) -> Schema:
        return {**super().schema(), "type": ["string", "integer"], "minimum": self.low, "maximum": self.high}


class WordOf(Value):
    """One word of a few."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.if_missing = words[0]

    def parse(self, scalar: Scalar) -> str:
        if scalar.text not in self.words:
            must = f"must be one of {', '.join(self.words)}" if len(self.words) > 1 else f"must be {self.words[0]}"
            raise InvalidValueError(must + suggestion(scalar.text, self.words))
        return scalar.text

    def schema(self) -> Schema:
        return {"type": "string", "anyOf": [{"enum": list(self.words)}, {"pattern": SUBSTITUTED}]}


class _Word:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(Annotated[source, WordOf(get_args(source))])


Choice = Annotated[T, _Word()]  # as Choice[Literal["json", "text"]]


def _or_substituted(pattern: str) -> str:
    """A pattern for JSON Schema of the whole text, or of text that is known only when the file is loaded."""
    return f"^({pattern})$|{SUBSTITUTED}"


def _require_text(scalar: Scalar) -> None:
    if scalar.plain and (scalar.text in NOT_TEXT or NUMBER.fullmatch(scalar.text) is not None):
        raise InvalidValueError("must be text; put it in quotes")


GLOB = Text(r"[A-Za-z0-9_.@*?]{1,256}", "must be a pattern of letters, digits, and _ . @ * ?, such as 'Mail.*'")
ID = Text(r"[^\x00-\x20\x7f]{1,256}", "must be 1 to 256 characters without spaces")
