"""What a single value may be: text, numbers, durations, sizes, addresses, secrets.

Each kind reads a value and describes itself as JSON Schema (draft 2020-12), so that an editor and the gateway
accept the same files. Which plain scalars are text follows the core schema of YAML 1.2 (section 10.3.2): `no` is
text, `true` and `8080` are not and must be quoted to be.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from gateway.settings.reading import NULLS, Cursor, Written
from gateway.settings.secret import Secret
from gateway.settings.substitution import UnfitError
from gateway.suggestions import suggestion

Schema = dict[str, Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(inf|Inf|INF)")
NOT_TEXT = NULLS | {"true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN", ".NAN"}
ANY_TEXT: Schema = {"type": "string", "minLength": 1}
SUBSTITUTED = r"\$\{(env|file):"  # in a schema: a value that is known only when the file is loaded

DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_BYTES = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


class Kind(ABC, Generic[T_co]):
    """What a key accepts. `unit` is what a field's name has more than its key: `head_timeout_s`, `head_timeout`.

    `noun` is what the reference calls the values, where the kind itself does not say it.
    """

    unit: str = ""
    noun: str = ""

    @abstractmethod
    def read(self, cursor: Cursor) -> T_co:
        """Reads the value under the cursor. Raises RefusedError, with everything that is wrong recorded."""

    @abstractmethod
    def schema(self, defs: dict[str, Schema]) -> Schema:
        """Describes the values; schemas worth a name go to `defs`."""


class Leaf(Kind[T]):
    """A kind whose values have no parts."""

    judged_anyway = False  # whether a problem that a stand-in has with other keys counts: any value would have it

    def read(self, cursor: Cursor) -> T:
        written = cursor.scalar()
        if written.missing:
            if not self.judged_anyway:
                cursor.reading.made_up.add(cursor.path)
            return self.stand_in(cursor.raw or "")
        try:
            return self.parse(written)
        except UnfitError as exc:
            raise cursor.refuse(str(exc)) from None

    @abstractmethod
    def parse(self, written: Written) -> T:
        """Reads one value. Raises UnfitError."""

    @abstractmethod
    def stand_in(self, raw: str) -> T:
        """A value to go on with where a variable is missing and that was allowed."""


class Text(Leaf[str]):
    """Any text, or text of a certain form: `pattern` with what it must be in words."""

    def __init__(self, pattern: str | None = None, must: str = "must not be empty") -> None:
        self.pattern = pattern
        self.must = must

    def parse(self, written: Written) -> str:
        if written.plain and _is_not_text(written.text):
            raise UnfitError("must be text; put it in quotes")
        if not self.admits(written.text):
            raise UnfitError(self.must)
        return written.text

    def admits(self, text: str) -> bool:
        """Whether text has the form."""
        return bool(text) and (self.pattern is None or re.fullmatch(self.pattern, text) is not None)

    def stand_in(self, raw: str) -> str:
        return raw

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": or_substituted(self.pattern)} if self.pattern else dict(ANY_TEXT)


UUID = Text(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "must be a UUID")


class SecretText(Leaf[Secret]):
    """A secret, at least so many characters or bytes long; with `header` fit to be sent in an HTTP header."""

    def __init__(self, *, characters: int = 1, bytes_: int = 1, header: bool = False) -> None:
        self.characters = characters
        self.bytes_ = bytes_
        self.header = header

    def parse(self, written: Written) -> Secret:
        text = written.text
        if written.plain and _is_not_text(text):
            raise UnfitError("must be text; put it in quotes")
        if not text:
            raise UnfitError("must not be empty")
        if len(text) < self.characters:
            raise UnfitError(f"must have at least {self.characters} characters")
        if len(text.encode()) < self.bytes_:
            raise UnfitError(f"must have at least {self.bytes_} bytes")
        if self.header and re.fullmatch(r"[!-~]+", text) is None:
            raise UnfitError("must be visible ASCII without spaces, since it is sent in a header")
        return Secret(text)

    def stand_in(self, raw: str) -> Secret:
        return Secret(raw.ljust(max(self.characters, self.bytes_), "_"))

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return dict(ANY_TEXT)


class Flag(Leaf[bool]):
    """`true` or `false`, and none of the other eighteen spellings of YAML 1.1."""

    def parse(self, written: Written) -> bool:
        if written.quoted or written.text not in ("true", "false"):
            raise UnfitError("must be true or false, without quotes")
        return written.text == "true"

    def stand_in(self, raw: str) -> bool:
        return False

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": ["boolean", "string"], "pattern": SUBSTITUTED}


class Integer(Leaf[int]):
    """A whole number between two bounds, both allowed."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    def parse(self, written: Written) -> int:
        must = f"must be a whole number from {self.low} to {self.high}"
        if written.quoted:
            raise UnfitError(f"{must}, without quotes")
        if re.fullmatch(r"0|-?[1-9][0-9]{0,17}", written.text) is None or not self._fits(int(written.text)):
            raise UnfitError(must)
        return int(written.text)

    def _fits(self, number: int) -> bool:
        return self.low <= number <= self.high

    def stand_in(self, raw: str) -> int:
        return self.low

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {
            "type": ["integer", "string"],
            "minimum": self.low,
            "maximum": self.high,
            "pattern": SUBSTITUTED,
        }


class Duration(Leaf[float]):
    """A time such as `500ms` or `1h`, between two bounds, in seconds."""

    unit = "_s"

    def __init__(self, low: str, high: str) -> None:
        self.range = Range(low, high, DURATION_MS)

    def parse(self, written: Written) -> float:
        return self.range.read(written.text, "must be a duration", "such as 500ms, 30s, 5m, 1h or 1d") / 1000

    def stand_in(self, raw: str) -> float:
        return self.range.low / 1000

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string", "pattern": or_substituted(self.range.pattern)}


class Size(Leaf[int]):
    """A size such as `512` or `64KiB`, between two bounds, in bytes. `unit` is empty for a key that says so itself."""

    def __init__(self, low: str, high: str, unit: str = "_bytes") -> None:
        self.range = Range(low, high, SIZE_BYTES)
        self.unit = unit

    def parse(self, written: Written) -> int:
        return self.range.read(written.text, "must be a size", "such as 512, 64KiB, 1MiB or 1GiB")

    def stand_in(self, raw: str) -> int:
        return self.range.low

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {
            "type": ["string", "integer"],
            "pattern": or_substituted(self.range.pattern),
            "minimum": self.range.low,
            "maximum": self.range.high,
        }


class Regex(Leaf[re.Pattern[str]]):
    """A regular expression in Python's syntax."""

    noun = "regular expression"

    def parse(self, written: Written) -> re.Pattern[str]:
        try:
            return re.compile(written.text)
        except re.error as exc:
            raise UnfitError(f"is no regular expression: {exc.msg}") from None

    def stand_in(self, raw: str) -> re.Pattern[str]:
        return re.compile(re.escape(raw))

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string"}


class Choice(Leaf[Any]):
    """One word of a few."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def parse(self, written: Written) -> str:
        if written.text not in self.words:
            known = f"must be one of {', '.join(self.words)}" if len(self.words) > 1 else f"must be {self.words[0]}"
            raise UnfitError(known + suggestion(written.text, self.words))
        return written.text

    def stand_in(self, raw: str) -> str:
        return self.words[0]

    def schema(self, defs: dict[str, Schema]) -> Schema:
        return {"type": "string", "anyOf": [{"enum": list(self.words)}, {"pattern": SUBSTITUTED}]}


class Reference(Text):
    """A name that a mapping at the top of the same file defines."""

    def __init__(self, section: str, noun: str) -> None:
        super().__init__()
        self.section = section
        self.named = noun
        self.noun = f"name of a {noun} of this file"

    def read(self, cursor: Cursor) -> str:
        name = super().read(cursor)
        known = cursor.reading.names(self.section)
        if name not in known and not cursor.scalar().missing:
            raise cursor.refuse(f"names no {self.named} of this file{suggestion(name, known)}")
        return name


class Range:
    """Two bounds, both allowed, and the units numbers between them may be written in."""

    def __init__(self, low: str, high: str, units: Mapping[str, int]) -> None:
        self.units = units
        self.pattern = f"[0-9]{{1,15}}({'|'.join(units)})"
        self.words = f"from {low} to {high}"
        self.low, self.high = self._number(low), self._number(high)

    def read(self, text: str, must: str, examples: str) -> int:
        """The number in the smallest unit. Raises UnfitError."""
        if re.fullmatch(self.pattern, text) is None:
            raise UnfitError(f"{must} {examples}")
        number = self._number(text)
        if not self.low <= number <= self.high:
            raise UnfitError(f"{must} {self.words}")
        return number

    def _number(self, text: str) -> int:
        digits = text.rstrip("".join(self.units))
        return int(digits) * self.units[text[len(digits) :]]


def _is_not_text(plain: str) -> bool:
    return plain in NOT_TEXT or NUMBER.fullmatch(plain) is not None


def or_substituted(pattern: str) -> str:
    return f"^({pattern})$|{SUBSTITUTED}"
