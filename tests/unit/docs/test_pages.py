"""The handbook holds together: its links lead somewhere, its configurations load, nothing in it stands unchecked."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from gateway.cli.demo import introduction
from gateway.cli.output import USAGE
from gateway.cli.program import COMMANDS
from gateway.settings import Config, ServerSettings
from gateway.settings import load as config
from tests.support.markdown import DOCS, PAGES, ROOT, anchors, blocks, commands, links, prose
from tests.unit.docs.test_tables import ATTRIBUTES
from tests.unit.settings.configured import schema

SPECIFICATIONS = (
    "https://modelcontextprotocol.io/specification",
    "https://github.com/OpenToolCalling/Specification",
    "https://github.com/ArcadeAI/OpenToolCalling",
    "https://github.com/OpenExecProtocol/Specification",
    "https://infinity.hydro.run/docs/rap/spec/overview",
    "https://github.com/Ai-Layer-Labs/lightforge",
    "https://spec.openapis.org/oas/latest.html",
)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)

# What a fence may say, and thereby who looks at the block: tests here, in tests/live/docs and in tests/deploy.
FENCES = {
    ("console", ""),
    ("console", "cluster"),
    ("console", "clients"),
    ("promql", ""),
    ("yaml", ""),
    ("yaml", "values"),
}
FILES = {
    ("yaml", ".yaml"),
    ("python", ".py"),
    ("rego", ".rego"),
    ("json", ".json"),
    ("ini", ".service"),
    ("nginx", ".conf"),
    ("haproxy", ".cfg"),
}  # saved under the name that the fence gives
FOR_A_CLUSTER = {  # the only commands that nothing runs
    "docker build -t toolgate .",
    'docker run --read-only -p 8080:8080 -v "$PWD:/etc/toolgate:ro" --env JWT_SECRET toolgate',
    "helm install toolgate helm/toolgate --namespace tools --values production-values.yaml",
    "kubectl --namespace tools rollout status deployment/toolgate",
    "kubectl --namespace tools port-forward deployment/toolgate 9464:9464",
    """kubectl --namespace tools logs deployment/toolgate --since 15m | grep -E '"level":"(warning|error)"'""",
}
WRONG = "wrong.yaml"  # shown for what is said of it
EXTENDED = "functions.yaml"  # for a protocol that its page adds; tests/live/docs/test_new_backend.py serves it


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


@each_page
def test_every_block_is_of_a_kind_that_some_test_looks_at(page: Path) -> None:
    for block in blocks(text_of(page)):
        is_file = (block.language, Path(block.mark).suffix) in FILES
        assert is_file or (block.language, block.mark) in FENCES, f"line {block.line}"
    assert text_of(page).count("```") == 2 * len(blocks(text_of(page)))


def test_a_unit_of_systemd_starts_a_command_there_is_and_waits_longer_than_the_gateway() -> None:
    (unit,) = (block.text for page in PAGES for block in blocks(text_of(page), "ini"))
    service = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line and line[0] not in "#[")
    program, command, option, file = service["ExecStart"].split()
    assert (Path(program).name, command, option, file) == ("toolgate", "serve", "-c", "/etc/toolgate/gateway.yaml")
    assert command in COMMANDS
    assert int(service["RestartPreventExitStatus"]) == USAGE
    assert int(service["TimeoutStopSec"]) > ServerSettings().shutdown_grace_s


def test_only_commands_for_a_cluster_are_not_run() -> None:
    found = [
        command.line
        for page in PAGES
        for block in blocks(text_of(page), "console", "cluster")
        for command in commands(block.text)
    ]
    assert set(found) == FOR_A_CLUSTER


def test_what_clients_are_told_is_the_endpoint_and_the_token_of_the_demonstration() -> None:
    """In the files they read, and in their own commands, which nothing here runs."""
    screen = introduction("http://127.0.0.1:8080", "http://127.0.0.1:9464", token="t", command="toolgate")
    page = text_of(DOCS / "mcp.md")
    for block in blocks(page, "json"):
        assert block.text.strip() in screen
    lines = [command.line for block in blocks(page, "console", "clients") for command in commands(block.text)]
    assert len(lines) >= 3
    for line in lines:
        assert "$TOOLGATE_URL/mcp" in shlex.split(line)
        assert "TOOLGATE_TOKEN" in line


@each_page
def test_every_configuration_loads(page: Path) -> None:
    for block in blocks(text_of(page), "yaml"):
        if block.mark not in ("values", WRONG, EXTENDED):
            config.read(block.text, source=f"{page.name}, line {block.line}", allow_missing_env=True, env={})


def test_every_file_of_values_is_one_that_the_chart_takes() -> None:
    schema = json.loads((ROOT / "helm/toolgate/values.schema.json").read_text())
    del schema["required"]  # what is shown are parts
    found = [block.text for page in PAGES for block in blocks(text_of(page), "yaml", "values")]
    assert found
    for text in found:
        jsonschema_rs.validator_for(schema).validate(yaml.safe_load(text))


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    assert links(text_of(page))
    for link in links(text_of(page)):
        if link in SPECIFICATIONS or (page.name == "comparison.md" and link.startswith("https://")):
            continue
        assert "://" not in link, "other addresses of others change; name them in words"
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not fragment or fragment in anchors(target), link


@each_page
def test_every_heading_has_an_address_of_its_own(page: Path) -> None:
    found = anchors(page)
    assert len(found) == len(set(found))


def test_the_index_leads_to_every_page() -> None:
    assert {link for link in links(text_of(DOCS / "README.md")) if link.endswith(".md") and "/" not in link} == {
        page.name for page in PAGES if page.name != "README.md"
    }


@each_page
def test_every_file_and_folder_that_is_named_exists(page: Path) -> None:
    """Besides placeholders, of which the only one is the `x` of a new dialect."""
    named = re.findall(r"`((?:gateway|tests|config|helm|docs)/[\w./-]*)`", prose(text_of(page)))
    for name in named:
        assert (ROOT / name).exists() or name == "tests/wire/x/", name


def test_every_class_and_constant_that_is_named_exists() -> None:
    """What is written in backticks as Python writes it, and begins with a capital."""
    named = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+|[A-Z]+(?:_[A-Z]+)+)(?:\.\w+)?`")
    names = {name for page in PAGES for name in named.findall(prose(text_of(page)))}
    names -= {name for name in names if name.startswith("TOOLGATE_KIT_")}  # made in the kit, of the words of a command
    paths = [*(ROOT / "gateway").rglob("*.py"), *(ROOT / "conformance").rglob("*.py")]
    code = {word for path in paths for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert "ErrorCode" in names
    assert names <= code


@each_page
def test_every_key_that_is_named_with_its_section_exists(page: Path) -> None:
    sections = {name: keys_of(name) for name in Config.model_fields}
    for section, name in re.findall(r"`(\w+)\.(\w+)(?:: \w+)?`", prose(text_of(page))):
        if section in sections and f"{section}.{name}" not in ATTRIBUTES:
            assert name in sections[section], f"{section}.{name}"


def keys_of(section: str) -> set[str]:
    """The keys of a section at the top of the file."""
    names = re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema()["properties"][section]))
    return {key for name in names for key in schema()["$defs"][name]["properties"]}
