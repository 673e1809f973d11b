"""Models of settings: what a new one takes, what they keep to themselves, and what is refused in code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import SecretStr, ValidationError

from gateway.configfile.cursor import ParseContext
from gateway.configfile.sections import ByName, ByWord, Section, setting
from gateway.configfile.substitution import Substitution
from gateway.configfile.values import Choice, Duration
from gateway.configfile.yamlnode import parse
from gateway.protocols import PROTOCOLS
from gateway.settings import BearerAuthSettings, ServerSettings
from gateway.settings.limits import NAME
from gateway.upstream.settings import BackendSettings, SigningSettings, SingleBackendSettings
from tests.unit.settings.configured import CANARY


class PagerSettings(SingleBackendSettings):
    """A tool server that answers by pager."""

    protocol: Choice[Literal["pager"]] = setting(..., "Pagers.")
    ring_s: Annotated[float, Duration("1s", "1m")] = setting("5s", "How long it rings.")


KINDS = {word: protocol.settings_class() for word, protocol in PROTOCOLS.items()} | {"pager": PagerSettings}


class File(Section):
    """A file with one more protocol."""

    backends: Annotated[
        Mapping[str, Annotated[BackendSettings, ByWord("protocol", KINDS)]],
        ByName(NAME),
    ] = setting({}, "The tool servers.")


def read(section: type[Section], text: str) -> tuple[Section | None, list[str]]:
    """A section of its own, or what is wrong with it."""
    context = ParseContext(parse(text), Substitution({}, Path()))
    try:
        return section.model_validate(context.cursor()), context.lines("f")
    except ValidationError:
        return None, context.lines("f")


def test_another_protocol_is_a_class_and_a_line() -> None:
    found, problems = read(File, "backends: {desk: {protocol: pager, url: 'http://x', ring: 7s}}")
    assert isinstance(found, File)
    desk = found.backends["desk"]
    assert isinstance(desk, PagerSettings)
    assert (desk.ring_s, desk.timeout_s, problems) == (7.0, 30.0, [])


def test_a_key_of_another_protocol_is_checked_like_any_other() -> None:
    _, problems = read(File, "backends: {desk: {protocol: pagr, url: 'http://x'}, top: {protocol: pager, rin: 2h}}")
    assert problems == [
        f"f:1:29: backends.desk.protocol: must be one of {', '.join(PROTOCOLS)}, pager; did you mean 'pager'?",
        "f:1:53: backends.top.url: is missing",
        "f:1:76: backends.top.rin: is not a known key; did you mean 'ring'?",
    ]


def test_a_secret_shows_neither_in_dumps_nor_in_errors() -> None:
    found = BearerAuthSettings(bearer=SecretStr(CANARY))
    with pytest.raises(ValidationError) as caught:
        SigningSettings(secret=SecretStr(CANARY), issuer="", subject=CANARY + "\n", ttl_s=CANARY)  # type: ignore[arg-type]
    shown = f"{found!r} {found} {found.model_dump()} {found.model_dump_json()} {caught.value} {caught.value!r}"
    assert CANARY not in shown
    assert found.bearer.get_secret_value() == CANARY


def test_values_in_code_are_checked_as_in_a_file_or_taken_as_they_are() -> None:
    assert ServerSettings(head_timeout_s="1m").head_timeout_s == ServerSettings(head_timeout_s=60.0).head_timeout_s  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="must be a duration from 100ms to 10m"):
        ServerSettings(head_timeout_s="1h")  # type: ignore[arg-type]
