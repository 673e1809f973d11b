"""The reference of the configuration is the one the code declares, and says something of every key."""

from __future__ import annotations

from gateway.config import reference_text
from tests.support.markdown import DOCS, rows
from tests.unit.configured import schema

PAGE = DOCS / "configuration.md"


def test_the_page_is_the_one_the_code_declares() -> None:
    ours = "make it anew: python -m gateway.config --markdown > docs/configuration.md"
    assert PAGE.read_text("utf-8") == reference_text(), ours


def test_every_key_of_every_section_has_a_row() -> None:
    text = reference_text()
    for section in schema()["$defs"].values():
        for name in section["properties"]:
            assert f"| `{name}` | " in text


def test_a_section_lists_its_keys_in_order_with_type_default_and_meaning() -> None:
    table = rows(reference_text(), "`server.admin`")
    host, port = table
    assert host == [
        "`host`",
        "a host name or an IP address, without brackets and port, or a list of them",
        "`127.0.0.1`",
        "The address to listen on, or several. `::` is every address of the machine, also over IPv4.",
    ]
    assert port[:3] == ["`port`", "whole number from 0 to 65535", "`9464`"]


def test_a_protocol_lists_only_what_it_has_besides_the_common_keys() -> None:
    names = [row[0] for row in rows(reference_text(), "`backends.<name>` with `protocol: callback`")]
    assert names == ["`protocol`", "`auth`", "`url`", "`urls`", "`allowed_origins`"]
