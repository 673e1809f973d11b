"""Finds out what a URL speaks, by asking it in every protocol."""

from __future__ import annotations

import asyncio
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from urllib.parse import urlsplit

from gateway.cli.drafting import openapi
from gateway.cli.drafting.draft import CredentialWantedError, Draft, Drafter, NotSpokenError, Wanted
from gateway.cli.drafting.look import LOOK_S, ProbeResponse, looking
from gateway.cli.output import FAILED, USAGE, CommandError
from gateway.protocols import PROTOCOLS

# Asked one after the other: what follows is only asked where nothing before it has tools. A server of breadcrumbs is
# asked for a token first, and documents are looked for at a dozen places.
ROUNDS: Sequence[Sequence[str]] = (("otc", "oxp", "callback", "mcp"), ("rcrt", "openapi"))
API = "For an API with a public OpenAPI document, say --protocol openapi."
MAX_REASON = 140  # characters
HOST = re.compile(r"(localhost|[a-z0-9.-]+:[0-9]+)(/.*)?", re.IGNORECASE)  # of a URL without its beginning

Answers = dict[str, Draft | NotSpokenError]  # by protocol


async def ask(wanted: Wanted, protocol: str | None = None) -> Draft:
    """Asks in one protocol, or in all until one is spoken. Raises CommandError."""
    _check(wanted)
    if not wanted.is_url:
        if protocol not in (None, "openapi"):
            raise CommandError(USAGE, f"A file can only be an OpenAPI document; for {protocol} say a URL.")
        return await _draft(wanted, "openapi")
    async with looking(wanted.place) as look:
        seen = await look(wanted.place)
    if protocol is not None:
        return await _insist(wanted, protocol, seen)
    if openapi.is_document(seen.body):
        return await _draft(replace(wanted, is_document=True), "openapi")
    _check_answer(wanted, seen)
    answers: Answers = {}
    for protocols in ROUNDS:
        answers |= await _ask_each(wanted, protocols)
        drafts = [answer for answer in answers.values() if isinstance(answer, Draft)]
        with_tools = [draft for draft in drafts if draft.tools]
        if with_tools:
            return _first(with_tools)
        _check_credential(wanted, answers)
    if drafts:
        return _first(drafts)
    raise _unknown(wanted, seen, answers)


def _check(wanted: Wanted) -> None:
    """Raises CommandError for what cannot be asked."""
    if wanted.token_env and not wanted.token:
        raise CommandError(USAGE, f"{wanted.token_env}, which --token-env names, is not set; export it first.")
    if HOST.fullmatch(wanted.place) and not os.path.exists(wanted.place):
        hint = f"To ask a tool server, write http://{wanted.place} or https://{wanted.place}."
        raise CommandError(USAGE, f"There is no file {wanted.place}.", hint)
    if wanted.is_url and not wanted.place.startswith(("http://", "https://")):
        raise CommandError(USAGE, f"{wanted.place} must be the path of a file, or a URL with http:// or https://.")


def _check_answer(wanted: Wanted, seen: ProbeResponse) -> None:
    """Raises CommandError for a server of which nothing can be found out."""
    if seen.is_silent:
        said = f"{wanted.place} takes connections, but has not answered within {LOOK_S:g} s."
        raise CommandError(FAILED, said, "If it only answers requests of its protocol, say which with --protocol.")
    if urlsplit(wanted.place).query:
        hint = "What it has to prove who asks is for --token-env."
        raise CommandError(USAGE, f"{wanted.place.partition('?')[0]} is no document, so no query can follow it.", hint)


def _check_credential(wanted: Wanted, answers: Mapping[str, Draft | NotSpokenError]) -> None:
    """Raises CommandError if any answer was that a credential is missing, or another one."""
    refused = (str(one) for one in answers.values() if isinstance(one, NotSpokenError) and one.wants_credential)
    reason = next(refused, None)
    if reason is not None:
        raise CredentialWantedError(reason, API, has_token=wanted.token_env is not None)


async def _draft(wanted: Wanted, protocol: str) -> Draft:
    """Raises NotSpokenError, CommandError."""
    module = PROTOCOLS[protocol].drafter
    if module is None:
        raise NotSpokenError("Toolgate cannot ask in this protocol")
    drafter: Drafter = import_module(module)
    return await drafter.draft(wanted, protocol)


async def _insist(wanted: Wanted, protocol: str, seen: ProbeResponse) -> Draft:
    """Asks in that protocol alone. Raises CommandError."""
    try:
        return await _draft(replace(wanted, is_document=openapi.is_document(seen.body)), protocol)
    except NotSpokenError as exc:
        if exc.wants_credential:
            raise CredentialWantedError(str(exc), has_token=wanted.token_env is not None) from exc
        raise CommandError(FAILED, f"{wanted.place} does not speak {protocol}: {exc}.") from exc


async def _ask_each(wanted: Wanted, protocols: Sequence[str]) -> Answers:
    """Asks in all of these at once. Raises CommandError."""

    async def answer(protocol: str) -> Draft | NotSpokenError:
        try:
            return await _draft(wanted, protocol)
        except NotSpokenError as exc:
            return exc

    return dict(zip(protocols, await asyncio.gather(*map(answer, protocols)), strict=True))


def _first(drafts: Sequence[Draft]) -> Draft:
    first, *others = drafts
    if not others:
        return first
    also = f"  It also speaks {' and '.join(other.form for other in others)}: --protocol chooses."
    return first._replace(said=(*first.said, also))


def _unknown(wanted: Wanted, seen: ProbeResponse, answers: Mapping[str, Draft | NotSpokenError]) -> CommandError:
    """The error for a server that speaks no protocol."""
    if seen.status in (401, 403):
        reason = f"{wanted.place} answered {seen.status}"
        return CredentialWantedError(reason, has_token=wanted.token_env is not None)
    hint = "Give the URL below which its protocol is spoken, or that of its OpenAPI document."
    if seen.location:
        hint = f"It redirects to {seen.location}: give that URL."
    said = f"{wanted.place} answers in none of the protocols that Toolgate tried:"
    return CommandError(FAILED, said, *_reasons(answers), hint)


def _reasons(answers: Mapping[str, Draft | NotSpokenError]) -> Iterator[str]:
    """A line for each protocol; what servers answer may be a whole page."""
    widest = max(map(len, answers))
    for name, answer in answers.items():
        yield f"  {name.ljust(widest)}  {textwrap.shorten(str(answer), MAX_REASON, placeholder=' ...')}"
