"""Another configuration for several workers: all of them go by it, or all by the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pytest

from gateway.net.server import ServerError
from gateway.processes.slot import WorkerSlot
from gateway.processes.supervisor import Supervisor
from gateway.settings import Config
from gateway.settings.load import read
from tests.support.terminal import own_logging

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A supervisor sets up the logging of its process, which is that of the tests."""
    with own_logging():
        yield


TEXT = "auth: none\nserver: {workers: 2}\nstate: {url: 'redis://127.0.0.1:1'}\n"
NOTHING: Callable[[], None] = lambda: None  # noqa: E731 - happens meanwhile


class Slot:
    """A slot whose worker has a configuration, and cannot use some; `meanwhile` happens while it takes another."""

    def __init__(self, *, refuses: Sequence[str] = ()) -> None:
        self.config: Config | None = None
        self.refuses = refuses
        self.meanwhile = NOTHING
        self.is_replaced = self.is_hurried = False

    def lacks(self, config: Config) -> bool:
        return self.config is not config

    async def apply(self, config: Config) -> bool:
        self.meanwhile()
        if config.logging.level in self.refuses:
            return False
        self.config = config
        return True

    def replace(self) -> None:
        self.is_replaced = True

    def hurry(self) -> None:
        self.is_hurried = True


def supervisor(*slots: Slot) -> tuple[Supervisor, Config]:
    """One that has started, and the configuration that all its workers have."""
    it = Supervisor(read(f"{TEXT}logging: {{level: error}}\n"))
    it._slots[:] = cast(list[WorkerSlot], slots)
    it._started.set()
    for slot in slots:
        slot.config = it._config
    return it, it._config


async def test_all_workers_get_it_and_those_to_come() -> None:
    slots = Slot(), Slot()
    supervised, old = supervisor(*slots)
    await supervised.apply(read(TEXT))
    assert [slot.config for slot in slots] == [supervised._config] * 2
    assert supervised._config is not old
    assert all(slot.is_hurried for slot in slots)


async def test_what_one_worker_cannot_put_to_use_the_others_give_up_again() -> None:
    slots = Slot(), Slot(refuses=["info"])
    supervised, old = supervisor(*slots)
    with pytest.raises(ServerError, match="A worker could not put the configuration to use"):
        await supervised.apply(read(TEXT))
    assert [slot.config for slot in slots] == [old, old]
    assert supervised._config is old
    assert not any(slot.is_replaced for slot in slots)


async def test_a_worker_that_cannot_give_up_what_another_could_not_put_to_use_is_replaced() -> None:
    slots = Slot(refuses=["error"]), Slot(refuses=["info"])
    supervised, _ = supervisor(*slots)
    with pytest.raises(ServerError):
        await supervised.apply(read(TEXT))
    assert [slot.is_replaced for slot in slots] == [True, False]


async def test_a_worker_that_is_replaced_meanwhile_does_not_stay_with_the_old_configuration() -> None:
    """Ours: the others are still busy with the new one when it is ready, so that it started by the old one."""
    slots = Slot(), Slot()
    supervised, old = supervisor(*slots)

    def replaced() -> None:
        slots[0].config, slots[1].meanwhile = old, NOTHING

    slots[1].meanwhile = replaced
    await supervised.apply(read(TEXT))
    assert [slot.config for slot in slots] == [supervised._config] * 2
