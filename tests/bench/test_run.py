"""The whole benchmark, at its shortest: it measures, it reports, and it leaves nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import figures
from tests.bench.children import ROOT
from tests.bench.machine import process_tree

DEADLINE_S = 60.0  # for anything that takes a second on an idle machine
BENCH = [sys.executable, "-m", "tests.bench"]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BENCH, *words], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_a_quick_run_reports_every_figure_it_is_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "bench.json"
    only = ["--only", "direct,echo,minimal,minimal-limited,crowd,callback-redis,stream", "--rounds", "1"]
    ran = bench("--quick", *only, "--json", str(target))
    assert ran.returncode == 0, ran.stderr
    found = json.loads(target.read_text())
    rows = {(row["subject"], row["connections"]): row for row in found["rows"]}
    callbacks = {(row, 64) for row in (figures.CALLBACK_REDIS, figures.CALLBACK_REDIS_PACED)}
    direct = {(figures.paced(figures.DIRECT, rate), 64) for rate in figures.PACES}
    echoes = {(figures.ECHO, 1), (figures.ECHO, 64)}
    minimal = {(figures.MINIMAL, 1), (figures.MINIMAL, 64), (figures.MINIMAL_LIMITED, 64)}
    assert rows.keys() == {*callbacks, *direct, *echoes, *minimal, (figures.TOOLGATE_CROWD, 64)}
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in rows.values())
    assert {key for key, row in rows.items() if not row["cpu_us"]} == direct
    weights = {weight["subject"]: weight for weight in found["memory"]}
    assert weights.keys() == {"echo", "minimal", "minimal-limited", "crowd", "callback-redis"}
    assert all(weight["idle_mb"] > 10 and weight["loaded_mb"] > 10 for weight in weights.values())
    limited = [line for line in found["lines"] if line["limit"] is not None]
    assert len(limited) == 3
    assert all(line["measured"] > 0 for line in limited)
    assert all(f"{line['what']}" in ran.stdout for line in found["lines"])


def test_what_cannot_be_measured_is_named_with_what_can() -> None:
    ran = bench("--only", "toolgate,oxen")
    assert ran.returncode == 2
    assert "There is no oxen to measure, but echo, echo-own, echo-granian, nginx, minimal," in ran.stderr


def test_a_run_that_is_stopped_takes_its_servers_with_it() -> None:
    with subprocess.Popen(BENCH, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as bench:
        assert bench.stderr is not None
        deadline = time.monotonic() + DEADLINE_S
        while len(tree := process_tree(bench.pid)) < 3 and time.monotonic() < deadline:
            pass
        bench.send_signal(signal.SIGTERM)
        said = bench.stderr.read()
        assert bench.wait(DEADLINE_S) == 128 + signal.SIGTERM, said
    assert len(tree) >= 3
    deadline = time.monotonic() + DEADLINE_S
    while any(living := [os.path.exists(f"/proc/{pid}") for pid in tree]) and time.monotonic() < deadline:
        time.sleep(0.02)  # one that was just being started ends by itself, a moment later
    assert not any(living)
