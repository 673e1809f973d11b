"""Tool ids and names for callers from those that tool servers use.

Tool ids are `Toolkit.Tool@x.y.z` of ASCII letters, digits and `_` (OXP 1.0, openapi.json: ToolId and ToolDefinition);
other ids are converted, with a warning where a part had to be made up.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

MAX_ID_LENGTH = 256  # generous for two words and a version; it also bounds the integers in versions
MAX_NAME_LENGTH = 64  # OXP 1.0, ToolDefinition.name
DIGEST_LENGTH = 8  # of a name that is cut: 55 + "_" + 8 digits = 64
DEFAULT_VERSION = "1.0.0"

VERSION_NAME = re.compile(r"(.+)_v[0-9]+_[0-9]+_[0-9]+")  # that is not cut; the group is the name of the tool

_FOREIGN = re.compile(r"[^A-Za-z0-9_]")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){0,2}", re.ASCII)


class DefinitionError(ValueError):
    """A listed tool that cannot be used; the text says why, for the operator."""


class ToolName(NamedTuple):
    """What a tool is called."""

    tool: str  # `Toolkit.Tool`
    version: str  # `x.y.z`
    warnings: tuple[str, ...] = ()  # for the operator


def tool_and_version(wire_id: str, version_field: str | None, default_toolkit: str) -> ToolName:
    """Names a tool from the id and version its server sent; a version in the id wins over the field.

    Raises DefinitionError for an id that is empty, longer than 256 characters or without a tool.
    """
    path, _, id_version = wire_id.partition("@")
    *toolkit, rest = path.split(".", 1)
    words = [word(toolkit[0] if toolkit else default_toolkit), word(rest)]
    if not all(words):
        raise DefinitionError("Its id names no tool." if path else "Its id is empty.")
    version, warnings = _version(id_version or version_field)
    name = ToolName(".".join(words), version, warnings)
    if len(name.tool) + 1 + len(version) > MAX_ID_LENGTH:
        raise DefinitionError(f"Its id is longer than {MAX_ID_LENGTH} characters.")
    return name


def published_name(tool: str, longest: int = MAX_NAME_LENGTH) -> str:
    """The name of `Toolkit.Tool` where only letters, digits, `_` and `-` are allowed: `Toolkit_Tool`.

    A name that is too long is cut and gets a digest of the whole, so that two long names stay two.
    """
    name = tool.replace(".", "_", 1)
    return name if len(name) <= longest else digest_name(tool, longest)


def digest_name(tool: str, longest: int = MAX_NAME_LENGTH) -> str:
    """A name that tells a tool from any other of which the usual name is the same."""
    beginning = word(tool)[: longest - DIGEST_LENGTH - 1]
    return f"{beginning}_{hashlib.sha256(tool.encode()).hexdigest()[:DIGEST_LENGTH]}"


def version_name(name: str, version: str, longest: int = MAX_NAME_LENGTH) -> str:
    """The name of one version of a tool: `Toolkit_Tool_v1_2_0`."""
    return published_name(f"{name}_v{version.replace('.', '_')}", longest)


def full_version(text: str) -> str:
    """`x.y.z` of one, two or three numbers: `1` means `1.0.0`."""
    numbers = [str(int(number)) for number in text.split(".")]
    return ".".join([*numbers, "0", "0"][:3])


def version_key(version: str) -> tuple[int, int, int]:
    """The numbers of `x.y.z`, to compare versions by."""
    major, minor, patch = version.split(".")
    return int(major), int(minor), int(patch)


def word(text: str) -> str:
    """The text with `_` for every character that no part of a tool id may have."""
    return _FOREIGN.sub("_", text)


def _version(text: str | None) -> tuple[str, tuple[str, ...]]:
    if not text:
        return DEFAULT_VERSION, ()
    if len(text) > MAX_ID_LENGTH or not _VERSION.fullmatch(text):
        return DEFAULT_VERSION, (f"Its version {text[:40]!r} is not of the form x.y.z; {DEFAULT_VERSION} stands in.",)
    return full_version(text), ()
