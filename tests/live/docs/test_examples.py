"""Each folder of examples is a tool server, a configuration, and what to type: it works as it stands."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.docs.terminal import Terminal
from tests.support.markdown import ROOT, blocks, commands

EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_does_what_its_page_says(example: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(example, tmp_path / "example")
    with ExitStack() as stack:
        terminal = Terminal(folder, {}, {}, stack)
        for block in blocks((example / "README.md").read_text("utf-8"), "console", ""):
            for command in commands(block.text):
                if command.line.startswith("toolgate serve"):
                    terminal.write("gateway.yaml", (example / "gateway.yaml").read_text("utf-8"))
                    terminal.env["TOOLGATE_URL"] = ""
                terminal.enter(command)
                if command.line.startswith("toolgate serve"):
                    terminal.env["TOOLGATE_URL"] = f"http://127.0.0.1:{terminal.ports['8080']}"
