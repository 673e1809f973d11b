"""The demonstration as its user has it: what it prints, and what can be done with that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.terminal import TOOLGATE, running

LAST_LINE = "--user-id"


@dataclass(frozen=True)
class Demo:
    """What the demonstration printed; `env` is what its export line sets."""

    screen: str
    url: str
    env: dict[str, str] = field(repr=False)

    @property
    def options(self) -> tuple[str, ...]:
        """The same as words of a command."""
        return ("--url", self.url, "--token", self.env["TOOLGATE_TOKEN"])


def read_screen(screen: str) -> Demo:
    """Reads what a user would read off the screen."""
    export = next(line for line in screen.splitlines() if line.startswith("export "))
    env = dict(re.findall(r"(\w+)=(\S+)", export))
    return Demo(screen, env["TOOLGATE_URL"], env)


@contextmanager
def running_demo() -> Iterator[Demo]:
    """Runs the demonstration on a free port, and stops it as its user would."""
    with running([*TOOLGATE, "demo", "--port", "0"]) as command:
        command.wait_for(LAST_LINE)
        yield read_screen(command.out.decode())
        command.interrupt()
        assert command.ended() == 0
