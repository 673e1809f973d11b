"""The catalogue as bytes: validators, encodings, and what the answer depends on (RFC 9110, 8.8.3, 12.5 and 13.1)."""

from __future__ import annotations

import asyncio
import gc
import gzip
import weakref
from collections import Counter
from collections.abc import Sequence

import pytest

from gateway.catalogue.listing import MAX_LISTS, Lists
from gateway.catalogue.routing import Router
from gateway.core import jsontext
from gateway.core.model import ToolDefinition
from gateway.core.ports import ANONYMOUS
from gateway.core.wire import Head, WireReply
from gateway.protocols.otc import surface as otc_surface
from gateway.protocols.otc.dialect import MIN_GZIP_BYTES
from gateway.protocols.otc.otc import Otc
from tests.unit.published import published

LONG = Router([published(f"Geo.Find{number}@1.0.0", description="Finds places. " * 5) for number in range(20)])
SHORT = Router([published()])

pytestmark = pytest.mark.anyio


def head(accept: str | None = None, if_none_match: str | None = None, prefix: str | None = None) -> Head:
    fields = {b"accept-encoding": accept, b"if-none-match": if_none_match}
    headers = {name: value.encode() for name, value in fields.items() if value is not None}
    return Head(method="GET", path="/tools", headers=headers, dialect=prefix)


async def asked(router: Router, asking: Head, lists: Lists | None = None) -> WireReply:
    return await (lists or Lists()).answer(router, ANONYMOUS, otc_surface.OTC, asking)


def etag(reply: WireReply) -> str:
    return (reply.header(b"etag") or b"").decode()


ENCODINGS = [
    (None, False),
    ("", False),
    ("gzip", True),
    ("GZip", True),
    ("br, gzip", True),
    ("gzip;q=1.0", True),
    ("gzip; q=0.001", True),
    ("gzip;Q=0.5", True),
    ("gzip;q=0", False),
    ("gzip; q=0.000", False),
    ("*", True),
    ("*;q=0", False),
    ("identity", False),
    ("identity;q=0.5, gzip;q=1", True),
    ("*;q=0, gzip", True),  # the one that is named counts, wherever it stands
    ("*, gzip;q=0", False),
    ("gzip;q=0, *", False),
    ("xgzip", False),
    ("gzipped", False),
    (",;,=", False),
]


@pytest.mark.parametrize(("accepted", "zipped"), ENCODINGS)
async def test_gzip_is_sent_if_accepted(accepted: str | None, zipped: bool) -> None:
    reply = await asked(LONG, head(accepted))
    plain = await asked(LONG, head())
    assert reply.header(b"content-encoding") == (b"gzip" if zipped else None)
    assert (gzip.decompress(reply.body) if zipped else reply.body) == plain.body


async def test_a_short_list_is_not_worth_zipping() -> None:
    reply = await asked(SHORT, head("gzip"))
    assert len(reply.body) < MIN_GZIP_BYTES
    assert reply.header(b"content-encoding") is None


async def test_each_encoding_has_its_own_strong_validator() -> None:
    plain, zipped = await asked(LONG, head()), await asked(LONG, head("gzip"))
    assert etag(plain).startswith('"')
    assert etag(zipped) == etag(plain)[:-1] + '-gzip"'


async def test_the_same_catalogue_has_the_same_validator_in_every_replica() -> None:
    assert etag(await asked(LONG, head())) == etag(await asked(Router(LONG.tools), head()))
    assert etag(await asked(LONG, head())) != etag(await asked(SHORT, head()))


MATCHING = ["{}", "W/{}", '"other", {}', "*", '{},"other"', ' "x" ,  W/{}']
OTHERS = ["", '"other"', '""', "W/", '"*x"', ","]


@pytest.mark.parametrize("form", MATCHING)
@pytest.mark.parametrize("accept", [None, "gzip"])
async def test_a_known_list_is_304(form: str, accept: str | None) -> None:
    first = await asked(LONG, head(accept))
    again = await asked(LONG, head(accept, form.format(etag(first))))
    assert (again.status, again.body) == (304, b"")
    for name in (b"etag", b"vary", b"cache-control"):
        assert again.header(name) == first.header(name)
    assert again.header(b"content-type") is None


@pytest.mark.parametrize("candidate", OTHERS)
async def test_a_caller_that_has_another_list_gets_this_one(candidate: str) -> None:
    assert (await asked(LONG, head(None, candidate))).status == 200


class Counting(Otc):
    """OTC, counting what it encodes."""

    name = "counting"

    def __init__(self, wire_version: str = "a", counts: Counter[str] | None = None) -> None:
        super().__init__(wire_version)
        self.counts = Counter[str]() if counts is None else counts

    def at(self, wire_version: str) -> Counting:
        """The same in another version; both count together."""
        return type(self)(wire_version, self.counts)

    def encode_definition(self, tool: ToolDefinition) -> bytes:
        self.counts["definitions"] += 1
        return super().encode_definition(tool)

    def list_body(self, tools: Sequence[bytes]) -> bytes:
        self.counts["lists"] += 1
        return super().list_body(tools)


async def test_a_tool_is_encoded_once_and_a_list_joined_once() -> None:
    router, lists, dialect = Router([published(), published("Geo.Lose@1.0.0")]), Lists(), Counting()
    for version in ("a", "b", "a", "b"):
        await lists.answer(router, ANONYMOUS, dialect.at(version), head())
    assert dialect.counts == {"definitions": 2, "lists": 2}


async def test_a_list_that_many_ask_for_at_once_is_joined_once() -> None:
    lists, dialect = Lists(), Counting()
    replies = await asyncio.gather(
        *(lists.answer(LONG, ANONYMOUS, dialect, head()) for _ in range(50)),
        lists.answer(LONG, ANONYMOUS, dialect.at("b"), head()),
    )
    assert dialect.counts["lists"] == 2
    assert len({reply.body for reply in replies}) == 2
    assert replies[0].body is replies[49].body  # or each would hold megabytes of its own


async def test_a_cancelled_caller_does_not_cancel_the_list() -> None:
    lists, dialect = Lists(), Counting()
    first, second = (asyncio.ensure_future(lists.answer(LONG, ANONYMOUS, dialect, head())) for _ in range(2))
    await asyncio.sleep(0)  # both ask
    first.cancel()
    assert (await second).status == 200
    assert first.cancelled()
    assert dialect.counts["lists"] == 1


async def test_a_list_that_could_not_be_made_is_made_for_the_next() -> None:
    class Failing(Counting):
        def list_body(self, tools: Sequence[bytes]) -> bytes:
            body = super().list_body(tools)
            if self.counts["lists"] == 1:
                raise RuntimeError("no room")
            return body

    lists, dialect = Lists(), Failing()
    with pytest.raises(RuntimeError, match="no room"):
        await lists.answer(LONG, ANONYMOUS, dialect, head())
    assert (await lists.answer(LONG, ANONYMOUS, dialect, head())).status == 200


async def test_the_lists_of_a_snapshot_that_is_gone_are_not_kept() -> None:
    """Each has megabytes, and dozens of them would wait for a caller who never comes."""
    lists, dialect, before, after = Lists(), Counting(), Router([published()]), Router([published()])

    async def ask(router: Router) -> weakref.ref[Router]:
        reply = await lists.answer(router, ANONYMOUS, dialect, head())
        assert reply.status == 200
        return weakref.ref(router)

    gone = await ask(before)
    await ask(after)
    await ask(after)
    assert dialect.counts["lists"] == 2
    assert len(lists._lists) == 1
    del before
    gc.collect()
    assert gone() is None


async def test_a_list_that_was_overtaken_is_answered_and_not_kept() -> None:
    lists, dialect, before = Lists(), Counting(), Router(LONG.tools)
    late = asyncio.ensure_future(lists.answer(before, ANONYMOUS, dialect, head()))
    await asyncio.sleep(0)
    await lists.answer(SHORT, ANONYMOUS, dialect, head())
    assert len(jsontext.decode((await late).body)["tools"]) == 20
    assert len(lists._lists) == 1


async def test_only_so_many_lists_are_kept() -> None:
    lists, dialect = Lists(), Counting()
    for version in ("first", *map(str, range(MAX_LISTS - 1)), "first", "one more", "first"):
        await lists.answer(SHORT, ANONYMOUS, dialect.at(version), head())
    assert dialect.counts["lists"] == MAX_LISTS + 1  # used again in between, the first was never dropped
    await lists.answer(SHORT, ANONYMOUS, dialect.at("0"), head())
    assert dialect.counts["lists"] == MAX_LISTS + 2
