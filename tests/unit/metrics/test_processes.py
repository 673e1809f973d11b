"""What a scrape says of processes is what the system says."""

from __future__ import annotations

import os
import resource
import time
from subprocess import Popen

import pytest

from gateway.metrics.families import FAMILIES, MAX_FDS, OPEN_FDS, PROCESS, PROCESS_CPU, PROCESS_START, RESIDENT
from gateway.metrics.processes import figures


def test_figures_of_processes_are_those_of_the_system() -> None:
    gone = 2**22  # above the highest number there can be
    with Popen(["sleep", "60"]) as child:
        read = list(figures({"own": os.getpid(), "child": child.pid, "gone": gone}))
        child.kill()
    found = {(each.family, *each.labels): each.values[0] for each in read}
    of_processes = [family for family in FAMILIES.values() if family.labels == PROCESS]
    assert found.keys() == {(family, name) for family in of_processes for name in ("own", "child")}
    assert found[PROCESS_CPU, "own"] == pytest.approx(time.process_time(), abs=1.0)
    assert found[PROCESS_START, "own"] <= found[PROCESS_START, "child"] <= time.time() + 1.0
    assert found[RESIDENT, "own"] > found[RESIDENT, "child"]
    assert found[OPEN_FDS, "own"] > found[OPEN_FDS, "child"] > 0
    assert found[MAX_FDS, "own"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
