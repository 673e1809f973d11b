"""The collector is spared walking large catalogues, and what is garbage by then does not become immortal."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from gateway.catalogue.catalogue import MANY_TOOLS
from tests.unit.catalogue.asking import ToolServer, ids, one_backend, running, tool

pytestmark = pytest.mark.anyio


class Knot:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Leaves nothing frozen to other tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize(("tools", "is_frozen"), [(3, False), (MANY_TOOLS, True)])
async def test_only_many_tools_are_frozen_and_no_garbage_with_them(tools: int, is_frozen: bool) -> None:
    server = ToolServer("crm", *(tool(f"A.T{number}") for number in range(tools)))
    frozen, knot = gc.get_freeze_count(), weakref.ref(Knot())
    async with running(one_backend(server, max_tools=tools)) as (catalogue, _):
        assert len(ids(catalogue)) == tools
        assert (gc.get_freeze_count() > frozen) is is_frozen
        assert (knot() is None) is is_frozen
