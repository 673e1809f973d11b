"""Values as parameters: the styles in which texts, arrays and objects stand in paths, queries, headers and cookies.

OpenAPI 3.2, Style Values and Appendices C to E; RFC 6570 for what they say in its words; RFC 6265 for cookies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize
from urllib.parse import unquote_plus, unquote_to_bytes

from gateway.core.model import Json
from gateway.core.wire import is_token
from gateway.protocols.openapi.document.plan import DeepArrays, Parameter

# What `allow_reserved` leaves as it is; never what ends the part of a URL it stands in, or means another character.
RESERVED = {"query": ":/?[]@!$'()*,;=", "path": ":[]@!$&'()*+,;=", "cookie": ""}
COOKIE_OCTETS = "!#$&'()*+-./:<=>?@[]^_`{|}~"  # RFC 6265, 4.1.1, but for `%`, which begins what was encoded
UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"  # RFC 3986, 2.3
JOINTS = {"simple": ",", "label": ".", "matrix": ";"}  # between the parts of an exploded value in a path
DELIMITERS = {"spaceDelimited": (" ", "%20"), "pipeDelimited": ("|", "%7C")}
CONTAINERS = (list, dict)
LONGEST_PLAIN = 1e21  # from here on JavaScript, too, writes numbers with an exponent

_is_cookie_value = re.compile(rf"[%A-Za-z0-9{re.escape(COOKIE_OCTETS)}]*").fullmatch

Encode = Callable[[str], str]


class UnsendableError(ValueError):
    """A value that has no form where it has to go; the text says why, as in 'is empty'."""


def scalar(value: Json) -> str:
    """The text of a value that is no array or object. Raises UnsendableError."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is float:
        return str(int(value)) if value.is_integer() and abs(value) < LONGEST_PLAIN else repr(value)
    if value is None:
        raise UnsendableError("has null where only a text, a number or a boolean can be sent")
    raise UnsendableError("has an array or an object where only a text, a number or a boolean can be sent")


@lru_cache(16)  # there are fewer
def encoder(safe: str) -> Encode:
    """Makes what percent-encodes the bytes of all characters but safe ones and unreserved ones (RFC 3986, 2.3)."""
    plain, blank = f"{UNRESERVED}{safe} ", " " if " " in safe else "%20"
    but_blanks = partial(re.compile(f"[^{re.escape(plain)}]+").sub, _percent_encoded)
    of_plain = plain.encode("ascii")

    def encode(text: str) -> str:
        # Most texts hold at most blanks that are to be encoded, which is found out and done ten times as fast.
        if text.encode().translate(None, of_plain):
            text = but_blanks(text)
        return text.replace(" ", blank)

    return encode


def _percent_encoded(match: re.Match[str]) -> str:
    return f"%{match[0].encode().hex('%').upper()}"


encoded = encoder("")
encoded_name = lru_cache(4096)(encoded)  # the names of a few documents
_for_cookie = encoder(COOKIE_OCTETS)


def path_text(parameter: Parameter, value: Json) -> str | None:
    """What stands for a placeholder in a path; None if the value is empty. Raises UnsendableError."""
    if parameter.media_type:
        return encoded(content(parameter, value))
    style, explode = parameter.style, parameter.explode
    if type(value) not in CONTAINERS:
        text = _value_encoder(parameter)(scalar(value))
        if style == "simple":
            return text or None
        return _matrix_pair(encoded_name(parameter.name), text) if style == "matrix" else f".{text}"
    parts = _parts(value, explode, _member_encoder(parameter))
    if not parts:
        return None
    if style == "matrix":
        name = encoded_name(parameter.name)
        if not explode:
            return f";{name}={','.join(parts)}"
        if type(value) is list:
            return "".join(_matrix_pair(name, part) for part in parts)
        return "".join(f";{part.removesuffix('=')}" for part in parts)
    joined = (JOINTS[style] if explode else ",").join(parts)
    return f".{joined}" if style == "label" else joined or None


def _matrix_pair(name: str, text: str) -> str:
    return f";{name}={text}" if text else f";{name}"  # RFC 6570, 3.2.7


def query_text(parameter: Parameter, value: Json, encode: Encode | None = None) -> str | None:
    """The pairs of a parameter in a query; None if there are none. Raises UnsendableError.

    `encode` takes the place of what encodes names and values by the rules of the parameter.
    """
    name, style = encoded_name(parameter.name), parameter.style
    if parameter.media_type:
        return f"{name}={encoded(content(parameter, value))}"
    if style == "deepObject":
        encode_name, encode_value = encode or encoded, encode or _value_encoder(parameter)
        pairs = deep_pairs(parameter.name, value, parameter.deep_arrays)
        return "&".join([f"{encode_name(inner)}={encode_value(text)}" for inner, text in pairs]) or None
    if type(value) not in CONTAINERS:
        return f"{name}={(encode or _value_encoder(parameter))(scalar(value))}"
    if style in DELIMITERS:
        if not parameter.explode:
            return _delimited(name, value, *DELIMITERS[style], encode or encoded)
        if type(value) is dict:
            raise UnsendableError("is an object, which cannot be sent here")
    return _form(name, value, parameter.explode, encode or _member_encoder(parameter), "&")


def _form(name: str, value: Json, explode: bool, encode: Encode, joint: str) -> str | None:
    parts = _parts(value, explode, encode)
    if not parts:
        return None
    if not explode:
        return f"{name}={','.join(parts)}"
    return joint.join(parts if type(value) is dict else [f"{name}={part}" for part in parts])


def _delimited(name: str, value: Json, delimiter: str, joint: str, encode: Encode) -> str | None:
    """Joins parts with a delimiter that is encoded itself, so that none of them may hold it."""
    parts = _parts(value, False, lambda text: encode(without(delimiter, text)))
    return f"{name}={joint.join(parts)}" if parts else None


def without(delimiter: str, text: str) -> str:
    """A text that may not hold what separates it from others. Raises UnsendableError."""
    if delimiter in text:
        raise UnsendableError(f"holds {delimiter!r}, which separates its items")
    return text


def deep_pairs(name: str, value: Json, arrays: DeepArrays, *, is_nameless: bool = True) -> list[tuple[str, str]]:
    """The names and texts of a value of any kind, with its members in brackets, as PHP, Rails and Node read them.

    Nothing in them is encoded. Raises UnsendableError.
    """
    pairs: list[tuple[str, str]] = []
    if type(value) is dict:
        for key, inner in value.items():
            if "[" in key or "]" in key:
                raise UnsendableError("has a member whose name holds a bracket")
            if inner is not None:
                pairs += deep_pairs(f"{name}[{key}]", inner, arrays, is_nameless=False)
    elif type(value) is list:
        for index, item in enumerate(value):
            mark = _mark(index, item, arrays, is_nameless=is_nameless)
            pairs += deep_pairs(name + mark, item, arrays)
    else:
        pairs.append((name, scalar(value)))
    return pairs


def _mark(index: int, item: Json, arrays: DeepArrays, *, is_nameless: bool) -> str:
    """What tells an item of an array from others, in the form that the server's framework reads; no standard has one.

    Only its index tells what belongs to an item that is an array or object. An array that has no name of a member, such
    as the whole value, has brackets: where a name is to be repeated, documents say `form`.
    """
    if type(item) in CONTAINERS or arrays == "indexes":
        return f"[{index}]"
    return "[]" if is_nameless or arrays == "brackets" else ""


def header_text(parameter: Parameter, value: Json) -> str | None:
    """The value of a header, in which nothing is encoded; None if it is empty. Raises UnsendableError."""
    if parameter.media_type:
        text = content(parameter, value)
    elif type(value) in CONTAINERS:
        parts = _parts(value, parameter.explode, _header_part)
        if not parts:
            return None
        text = ",".join(parts)
    else:
        text = scalar(value)
    check_header(text)
    return text


def _header_part(text: str) -> str:
    if "," in text:
        raise UnsendableError("holds ',', which separates its items")
    check_header(text)
    return text


def check_header(text: str) -> None:
    """Refuses what ends a header, and what is lost or changed on the way (RFC 9110, 5.5)."""
    if not (text.isascii() and text.isprintable()):
        raise UnsendableError("holds a character that a header may not have")
    if text != text.strip(" "):
        raise UnsendableError("begins or ends with a blank, which a header may not")


def cookie_text(parameter: Parameter, value: Json) -> str | None:
    """The pairs of a parameter among cookies; None if there are none. Raises UnsendableError."""
    if parameter.style == "cookie":
        return _plain_cookie(parameter, value)
    name = encoded_name(parameter.name)
    if parameter.media_type:
        return f"{name}={_for_cookie(content(parameter, value))}"
    if type(value) not in CONTAINERS:
        return f"{name}={_for_cookie(scalar(value))}"
    return _form(name, value, parameter.explode, encoded, "&")


def _plain_cookie(parameter: Parameter, value: Json) -> str | None:
    """Cookies in which nothing is encoded (OpenAPI 3.2, style `cookie`)."""
    if type(value) not in CONTAINERS:
        return f"{parameter.name}={_cookie_part(scalar(value))}"
    if type(value) is dict and parameter.explode and not all(map(is_token, value)):
        raise UnsendableError("has a member whose name cannot be that of a cookie")
    return _form(parameter.name, value, parameter.explode, _cookie_part, "; ")


def _cookie_part(text: str) -> str:
    if not _is_cookie_value(text):
        raise UnsendableError("holds a character that a cookie may not have")
    return text


def content(parameter: Parameter, value: Json) -> str:
    """The text of a parameter with a media type: JSON, else as it is. Raises UnsendableError."""
    if "json" in parameter.media_type.lower():
        return json.dumps(value, ensure_ascii=parameter.where == "header", separators=(",", ":"))
    return scalar(value)


def _parts(value: Json, explode: bool, encode: Encode) -> list[str]:
    """The items of an array; the names and values of an object, or exploded its pairs `name=value`."""
    if type(value) is list:
        return [encode(scalar(item)) for item in value]
    pairs = [(encode(name), encode(scalar(inner))) for name, inner in value.items() if inner is not None]
    if not explode:
        return [text for pair in pairs for text in pair]
    if any("=" in name for name, _ in pairs):
        raise UnsendableError("has a member whose name holds '='")
    return [f"{name}={text}" for name, text in pairs]


def _value_encoder(parameter: Parameter) -> Encode:
    return encoder(RESERVED[parameter.where]) if parameter.allow_reserved else encoded


def _member_encoder(parameter: Parameter) -> Encode:
    """Encodes a part of a value: also the reserved characters that separate parts, whatever else may stay as it is."""
    if parameter.style == "form" and parameter.explode:
        return _value_encoder(parameter)
    encode = encoder(RESERVED[parameter.where].translate(_WITHOUT_DELIMITERS)) if parameter.allow_reserved else encoded
    if parameter.style == "label" and parameter.explode:
        return lambda text: encode(text).replace(".", "%2E")
    return encode


_WITHOUT_DELIMITERS = str.maketrans("", "", ",;=&")


MAX_DECODINGS = 8  # of a value: no chain of servers decodes it so often
DOTS = (".", "..")
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
CLIMBS = "is, or has as a part, '.' or '..', which means another path"

_MARK = "\0"  # where a placeholder stood: no path has one
_encoded = encoder("/%:@!$&'()*+,;=")  # `%` begins what is encoded already
_query = encoder("/%:@!$'()*,;=&?")
_forbidden = re.compile(r"[\x00-\x1f\x7f-\x9f\\]").search  # Windows takes a backslash for a slash
_cut = re.compile(r"[/;]").split  # servers that know parameters of a segment cut it at the semicolon


class Segment(NamedTuple):
    """A segment of a template that has placeholders: `frame` has a `%s` for each of `names`."""

    frame: str
    names: tuple[str, ...]


@lru_cache(4096)  # the operations of a few documents
def read_template(template: str) -> tuple[str, tuple[Segment, ...]]:
    """Reads a template as a frame with a `%s` for each segment that has placeholders, and these segments."""
    parts = PLACEHOLDER.split(template)
    literals, names = parts[::2], iter(parts[1::2])
    frames, segments = [], []
    for segment in _MARK.join(literals).split("/"):
        frame = "%s".join(_encoded(literal).replace("%", "%%") for literal in segment.split(_MARK))
        inside = tuple(islice(names, segment.count(_MARK)))
        frames.append("%s" if inside else frame)
        if inside:
            segments.append(Segment(frame, inside))
    return "/".join(frames), tuple(segments)


def split_path(key: str) -> tuple[str, str]:
    """The path in a key of a document's `paths`, and the query that is the same in all requests.

    A fragment is never sent: documents tell operations with one path apart by it.
    """
    path, _, query = key.partition("#")[0].partition("?")
    return path, _query(query)


def query_names(query: str) -> list[str]:
    """The names of the parameters in a query."""
    return [unquote_plus(pair.partition("=")[0]) for pair in query.split("&") if pair]


def encoded_path(path: str) -> str:
    """A path without placeholders as it is sent."""
    return _encoded(path)


def is_plain_segment(segment: str) -> bool:
    """Whether a segment means the same to every server, as nearly all do."""
    return segment not in ("", *DOTS) and "%" not in segment and ";" not in segment


def check_segment(segment: str, *, may_hold_slash: bool) -> None:
    """Raises UnsendableError for what means another path, or several segments, once decoded, however often."""
    if not segment:
        raise UnsendableError("is empty")
    for _ in range(MAX_DECODINGS):
        try:
            text = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError as exc:  # some servers read a dot from bytes that no UTF-8 has
            raise UnsendableError("holds percent signs with digits that encode no text") from exc
        if _forbidden(text):
            raise UnsendableError("holds a control character or a backslash")
        if "/" in text and not may_hold_slash:
            raise UnsendableError("holds a slash")
        if any(part.strip() in DOTS for part in _cut(normalize("NFKC", text))):
            raise UnsendableError(CLIMBS)
        if text == segment:
            return
        segment = text
    raise UnsendableError("holds percent signs that are encoded again and again")
