"""What `toolgate check --live` shows of the demonstration fleet, to the letter; only times and addresses differ."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.terminal import tool_server, toolgate

KINDS = ("otc", "oxp", "rap")
FLAWED = """\
server: {host: 0.0.0.0, callback_url: "http://10.1.1.1:8080", cors: {origins: ["*"]}}
auth: {api_keys: [{id: one, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}]}
backends:
  office: {protocol: otc, url: "${env:DEMO_OTC_URL}"}
  postbox: {protocol: oxp, url: "${env:DEMO_OXP_URL}"}
  spare: {protocol: oxp, url: "${env:DEMO_OXP_URL}"}
  gone: {protocol: oxp, url: "${env:NOWHERE}"}
  builds: {protocol: callback, url: "${env:DEMO_RAP_URL}", discovery: {max_tools: 3}}
routes:
  - {tools: "Clock.*", backend: office, deny: true}
  - {tools: "Calculator.*", backend: office, scopes: [calc, sums]}
  - {tools: "Calculator.Add", backend: office}
  - {tools: "Txt.*", backend: office}
  - {tools: "*", backend: postbox, validate_output: "off"}
  - {tools: "Sms.*", backend: spare}
  - {tools: "*", backend: gone}
  - {tools: "Builds.*", backend: builds}
"""
WARNINGS = """\
warning: server.public_url is not set, so links of challenges begin with 0.0.0.0 and lead nowhere
warning: neither server.tls nor trusted_proxies is set: tokens are sent unencrypted, unless a proxy handles TLS
warning: server.cors.origins lets the pages of every site call; list the origins that you mean
warning: route 5 (* of postbox): validate_output is off: results are not checked
"""
FOUND = """\
FILE: good (5 backends, 8 routes)
state: memory

BACKEND  PROTOCOL  DIALECT   STATE  TOOLS  LATENCY  PROBLEMS
office   otc       otc       up     3      N ms     3
postbox  oxp       oxp       up     4      N ms     -
spare    oxp       oxp       up     0      N ms     2
gone     oxp       oxp       DOWN   0      -        1
builds   callback  callback  up     3      N ms     1

TOOL                     BACKEND  SCOPES     TOKENS  DESCRIPTION
Builds.build@1.0.0       builds   -          55      Builds, for as long as told.
Builds.deploy@1.0.0      builds   -          71      Deploys what was built last, once the user has allowed it.
Builds.lint@1.0.0        builds   -          57      Looks for flaws in source text.
Calculator.Add@1.0.0     office   calc sums  40      Adds two numbers.
Calculator.Add@1.1.0     office   calc sums  62      Adds two numbers and any further terms.
Calculator.Divide@1.0.0  office   calc sums  40      Divides a by b.
Mail.Search@1.0.0        postbox  -          56      Searches senders and subjects of the user's mail.
Notes.Create@1.0.0       postbox  -          41      Writes a note for the user.
Notes.List@1.0.0         postbox  -          28      Lists the user's notes.
Sms.Send@1.0.0           postbox  -          53      Sends a text message.

10 tools, about 503 tokens for a model

7 problems:
  gone is down: connect: NOWHERE cannot be reached: connection refused.
  spare: Sms.Send@1.0.0 is not published: Sms.Send belongs to backend 'postbox', whose route '*' comes first; \
a deny route for 'spare' says that this is meant.
  builds: It lists more than 3 tools; only the first 3 are looked at.
  office: no route publishes 2 tools: Doorbell.Ring@0.1.0, Text.Echo@1.0.0
  spare: no route publishes 3 tools: Mail.Search@1.0.0, Notes.Create@1.0.0, Notes.List@1.0.0
  office: route 3 (Calculator.Add) publishes nothing: earlier routes match all of its tools
  office: route 4 (Txt.*) publishes nothing: it matches no tool
"""


@pytest.fixture(scope="module")
def fleet() -> Iterator[Mapping[str, str]]:
    """The URLs of the demonstration servers, as variables; all start at once."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0)) as taken:
        urls = {f"DEMO_{kind.upper()}_URL": stack.enter_context(tool_server(f"{kind}_server")) for kind in KINDS}
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}"
        taken.close()
        yield urls | {"NOWHERE": nowhere}


def screen(text: str, file: Path, fleet: Mapping[str, str]) -> str:
    """What was printed, without what differs from run to run."""
    text = text.replace(str(file), "FILE").replace(fleet["NOWHERE"], "NOWHERE")
    return re.sub(r"\d+ ms +", lambda found: "N ms".ljust(len(found[0])), text)


def test_every_flaw_of_a_fleet_has_its_line(fleet: Mapping[str, str], tmp_path: Path) -> None:
    file = tmp_path / "flawed.yaml"
    file.write_text(FLAWED)
    done = toolgate("check", str(file), "--live", env=fleet)
    assert done.stderr == WARNINGS
    assert (screen(done.stdout, file, fleet), done.returncode) == (FOUND, 1)
