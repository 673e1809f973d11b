"""Documents: which are read, what becomes of each operation, and what none of them can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.core.jsontext import encode
from gateway.protocols.openapi.document.document import DocumentError, read_document
from gateway.protocols.openapi.document.operations import Operation
from gateway.protocols.openapi.document.yamltext import YamlTextError, decode_yaml
from tests.unit.protocols.openapi.document.documents import document, found, root

PET = {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {}}}}
PETSTORE_3: dict[str, Any] = {
    "/pets": {
        "parameters": [{"$ref": "#/components/parameters/Trace"}],
        "get": {
            "operationId": "listPets",
            "parameters": [
                {"name": "tags", "in": "query", "style": "form", "explode": False, "schema": {"type": "array"}}
            ],
            "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "array"}}}}},
        },
        "post": {
            "operationId": "addPet",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
            },
            "responses": {"201": {"description": ""}},
        },
    },
    "/pets/{id}": {
        "get": {
            "operationId": "getPet",
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
        },
        "delete": {
            "operationId": "deletePet",
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "security": [{"key": []}],
        },
    },
}
TRACE = {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
PETSTORE_2: dict[str, Any] = {
    "swagger": "2.0",
    "info": {"title": "Shop", "version": "1.2.3"},
    "host": "api.example.test",
    "basePath": "/v1/",
    "produces": ["application/json"],
    "parameters": {"Trace": {"name": "X-Trace", "in": "header", "type": "string"}},
    "definitions": {"Pet": PET},
    "securityDefinitions": {"key": {"type": "basic"}},
    "paths": {
        "/pets": {
            "parameters": [{"$ref": "#/parameters/Trace"}],
            "get": {
                "operationId": "listPets",
                "parameters": [{"name": "tags", "in": "query", "type": "array", "collectionFormat": "csv"}],
                "responses": {"200": {"description": "", "schema": {"type": "array"}}},
            },
            "post": {
                "operationId": "addPet",
                "parameters": [
                    {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
                ],
                "responses": {"201": {"description": ""}},
            },
        },
        "/pets/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "type": "integer"}],
            "get": {"operationId": "getPet"},
            "delete": {"operationId": "deletePet", "security": [{"key": []}]},
        },
    },
}


def petstore(version: str) -> bytes:
    if version == "2.0":
        return encode(PETSTORE_2)
    components = {
        "schemas": {"Pet": PET},
        "parameters": {"Trace": TRACE},
        "securitySchemes": {"key": {"type": "http", "scheme": "basic"}},
    }
    servers = [{"url": "https://api.example.test/v1"}]
    return encode(root(PETSTORE_3, version, servers=servers, components=components))


@pytest.mark.parametrize("version", ["3.0.3", "3.1.1", "3.2.0"])
def test_openapi_1_swagger_and_every_openapi_give_the_same_four_operations(version: str) -> None:
    ours, swagger = (read_document(petstore(each), "https://api.example.test") for each in (version, "2.0"))
    assert found(ours) == found(swagger)
    assert [(entry.id, entry.prefix) for entry in found(ours).values() if isinstance(entry, Operation)] == [
        ("listPets", "/v1"),
        ("addPet", "/v1"),
        ("getPet", "/v1"),
        ("deletePet", "/v1"),
    ]
    for part in ("schemas", "securitySchemes"):
        assert ours.components[part] == swagger.components[part]


REFUSED = [
    (b'{"openapi": "4.0.0", "paths": {}}', "The document is OpenAPI '4.0.0'; 3.0, 3.1 and 3.2 are supported."),
    (b'{"swagger": "1.2", "paths": {}}', "The document is Swagger '1.2'; 2.0 is supported."),
    (b'{"paths": {}}', "The document says neither 'openapi' nor 'swagger'."),
    (b'{"openapi": "3.0.3"}', "The document has no 'paths'."),
    (b'{"openapi": "3.1.0", "paths": []}', "The document has no 'paths'."),
    (b"[1]", "The document is no object."),
    (b"", "The document is no object."),
    (b"<html>", "The document is no object."),
    (b'{"openapi": ', "The document is no JSON: Input data was truncated."),
    (b'{"openapi": "3.0.3", "paths": {"a": NaN}}', "The document is no JSON: "),
    (b'{"a":' * 5000, "The document is no JSON: "),  # too deep, or cut: Pythons differ
    (b"a: \xff", "The document is not valid UTF-8."),
    (b"openapi: [", "The document is neither JSON nor YAML: did not find expected node content (line 2)."),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_openapi_2_what_is_no_document_is_refused_with_a_sentence(text: bytes, reason: str) -> None:
    with pytest.raises(DocumentError) as refusal:
        read_document(text, "https://api.example.test")
    assert str(refusal.value).startswith(reason)


def test_openapi_t21_a_document_of_webhooks_has_no_operations_and_a_later_minor_is_read_as_3_2() -> None:
    assert not found(read_document(b'\xef\xbb\xbf{"openapi": "3.1.0", "webhooks": {"x": {"post": {}}}}'))
    later = read_document(b"\xef\xbb\xbfopenapi: 3.7.0\npaths: {}")
    assert (later.dialect, later.warnings) == ("3.2", ["The document is OpenAPI '3.7.0'; it is read as 3.2."])


CHAIN = {f"P{number}": {"$ref": f"#/components/parameters/P{number + 1}"} for number in range(33)}
BROKEN = [
    ("/a", {"get": "text"}, "GET /a", "It has something else where its document must have an object."),
    ("/a", {"$ref": "#/nowhere"}, "/a", "It refers to '#/nowhere', which the document does not have."),
    ("/a", {"$ref": "#/paths/~1a"}, "/a", "It has a chain of more than 32 references."),
    ("a", {"get": {}}, "GET a", "Its path does not begin with '/'."),
    ("/a?b={c}", {"get": {}}, "GET /a?b={c}", "Its path has a query with a placeholder."),
    ("/a/{b", {"get": {}}, "GET /a/{b", "Its path has the character '{', which no path may have."),
    ("/a\n", {"get": {}}, "GET /a\n", "Its path has the character '\\n', which no path may have."),
    ("/a/%2e./b", {"get": {}}, "GET /a/%2e./b", "Its path has an empty segment, '.' or '..'."),
    ("/a//b", {"get": {}}, "GET /a//b", "Its path has an empty segment, '.' or '..'."),
    ("/a/{}", {"get": {}}, "GET /a/{}", "Its path has {}, which is not of OpenAPI."),
    ("/a/{+b}", {"get": {}}, "GET /a/{+b}", "Its path has {+b}, which is not of OpenAPI."),
    ("/a/{b*}", {"get": {}}, "GET /a/{b*}", "Its path has {b*}, which is not of OpenAPI."),
    ("/a", {"get": {"operationId": "x", "parameters": {}}}, "x", "Its 'parameters' are no list."),
    ("/a", {"get": {"operationId": "x", "parameters": [{"in": "query"}]}}, "x", "It has a parameter without a name."),
    (
        "/a",
        {"get": {"operationId": "x", "parameters": [{"name": "n", "in": "body"}]}},
        "x",
        "Its parameter 'n' is in 'body', which is no place.",
    ),
    (
        "/a",
        {"get": {"operationId": "x", "parameters": [{"name": "n", "in": "query", "style": "tsv"}]}},
        "x",
        "Its parameter 'n' has the style 'tsv', which query has not.",
    ),
    (
        "/a",
        {
            "get": {
                "operationId": "x",
                "parameters": [{"name": "N", "in": "header"}, {"name": "n", "in": "header"}],
            }
        },
        "x",
        "It has the parameter 'n' in header twice.",
    ),
    ("/a", {"get": {"security": {}}}, "GET /a", "Its 'security' is no list of objects."),
    ("/a", {"get": {"responses": []}}, "GET /a", "Its 'responses' are no object."),
    (
        "/a",
        {"get": {"parameters": [{"$ref": "#/components/parameters/P0"}]}},
        "GET /a",
        "It has a chain of more than 32 references.",
    ),
    *(
        (
            "/a",
            {"post": {"requestBody": {"$ref": reference}}},
            "POST /a",
            f"It refers to {reference!r}, which is outside its document.",
        )
        for reference in (
            "https://x.test/b",
            "file:///etc/passwd",
            "../b.json#/x",
            "/etc/passwd",
            "http://169.254.1.1/",
        )
    ),
]


@pytest.mark.parametrize(("path", "item", "id_", "reason"), BROKEN, ids=range(len(BROKEN)))
def test_openapi_3_and_9_an_operation_that_cannot_be_a_tool_is_left_out_alone(
    path: str, item: Any, id_: str, reason: str
) -> None:
    paths = {path: item, "/whole": {"get": {}}}
    operations = found(document(paths, "3.1.0", components={"parameters": {**CHAIN, "P33": TRACE}}))
    assert operations.pop(id_) == reason
    assert list(operations) == ["GET /whole"]


def test_openapi_4_members_of_a_path_that_are_no_methods_make_no_tools() -> None:
    item = {
        "summary": "s",
        "parameters": [],
        "servers": [{"url": "/"}],
        "x-get": {},
        "trace": {},
        "query": {},
        "get": {},
    }
    assert list(found(document({"/a": item, "x-b": {"get": {}}}))) == ["GET /a"]
    item["additionalOperations"] = {"COPY": {}, "CONNECT": {}, "a b": {}}
    assert list(found(document({"/a": item}, "3.2.0"))) == ["QUERY /a", "GET /a", "COPY /a"]


def test_openapi_5_references_to_paths_parameters_bodies_and_responses_are_followed() -> None:
    schema = {"$ref": "#/components/schemas/S"}
    content = {"text/plain": {"schema": schema}}
    components = {
        "pathItems": {"a/b~": {"parameters": [{"$ref": "#/components/parameters/T"}], "get": {"summary": "far"}}},
        "parameters": {"T": TRACE},
        "requestBodies": {"B": {"content": {"text/plain": {"$ref": "#/components/mediaTypes/M"}}}},
        "responses": {"R": {"content": content}},
        "mediaTypes": {"M": {"schema": schema}},
    }
    near = {
        "parameters": [{**TRACE, "name": "x-trace", "required": True}],
        "requestBody": {"$ref": "#/components/requestBodies/B"},
        "responses": {
            "2xx": {"$ref": "#/components/responses/R"},
            "default": {"$ref": "#/components/responses/R"},
            "404": {"$ref": "#/nowhere"},
            "oops": {},
        },
    }
    item = {"$ref": "#/components/pathItems/a~1b%7E0", "post": near}
    operations = found(document({"/a": item}, "3.2.0", components=components))
    get, post = operations["GET /a"], operations["POST /a"]
    assert isinstance(get, Operation)
    assert isinstance(post, Operation)
    assert (get.summary, get.parameters) == ("far", (TRACE,))
    assert post.parameters == ({**TRACE, "name": "x-trace", "required": True},)
    assert post.body == {"content": content}
    assert post.responses == {"2XX": {"content": content}, "default": {"content": content}}


def test_openapi_8_yaml_is_read_as_openapi_asks_for() -> None:
    text = b"""
openapi: 3.0.3
info: {version: 1.10, title: on}
paths:
  /a:
    get:
      responses: {200: {description: 2022-11-28}}
      parameters:
        - {name: n, in: query, schema: &s {enum: [yes, no, 2020-01-01, 12:30, 010, 0x1F, 1e3, ~, true]}}
        - {name: m, in: query, schema: *s}
"""
    read = read_document(text)
    operation = found(read)["GET /a"]
    assert isinstance(operation, Operation)
    assert (read.version, read.title, list(operation.responses)) == ("1.10", "on", ["200"])
    expected = ["yes", "no", "2020-01-01", "12:30", "010", 31, 1000.0, None, True]
    assert [parameter["schema"]["enum"] for parameter in operation.parameters] == [expected] * 2


def test_openapi_9_files_beside_a_document_become_part_of_it_where_that_is_allowed(tmp_path: Path) -> None:
    folder = tmp_path / "api"
    (folder / "parts").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("get: {summary: secret}")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (folder / "parts" / "a~b.yaml").write_text("get: {parameters: [{$ref: 'parameters.json#/n'}]}")
    (folder / "parts" / "parameters.json").write_text(
        '{"n": {"$ref": "#/m"}, "m": {"$ref": "../root.yaml#/components/p"}}'
    )
    (folder / "root.yaml").write_text("components: {p: {name: n, in: query, schema: {$ref: '#/components/p'}}}")
    (folder / "broken.yaml").write_text("a: 1\na: 2")
    paths = {
        "/a": {"$ref": "parts/a%7Eb.yaml"},
        **{f"/{number}": {"$ref": reference} for number, reference in enumerate(ELSEWHERE)},
    }
    read = read_document(encode(root(paths)), folder=str(folder))
    operations = found(read)
    operation = operations.pop("GET /a")
    assert isinstance(operation, Operation)
    schema = {"$ref": "#/x-files/root.yaml/components/p"}
    assert operation.parameters == ({"name": "n", "in": "query", "schema": schema},)
    assert read.resolve(schema) is operation.parameters[0]
    reasons = {f"/{number}": operations[f"/{number}"] for number, _ in enumerate(ELSEWHERE)}
    for (name, reason), told in zip(ELSEWHERE.items(), reasons.values(), strict=True):
        file = f"It refers to the file {name!r}, which cannot be read: {reason}"
        assert told == (file if reason else f"It refers to {name!r}, which is outside its document.")
    assert "GET /a" not in found(read_document(encode(root(paths))))


NOT_THERE = "it is no file below the document's folder."
ELSEWHERE = {
    **dict.fromkeys(("../secret.yaml", "parts/../../secret.yaml", "%2e%2e/secret.yaml"), ""),
    **dict.fromkeys(("/etc/passwd", "file:///etc/passwd", "https://x.test/a.yaml", "//x.test/a.yaml"), ""),
    **dict.fromkeys(("link.yaml", "none.yaml"), NOT_THERE),
    "notes.md": "its name does not end like that of a document.",
    "broken.yaml": "The document is neither JSON nor YAML: the key 'a' stands there twice (line 2).",
}


def test_operations_that_are_references_are_those_they_refer_to(tmp_path: Path) -> None:
    """As large documents are written: every operation is a file, or stands elsewhere in the document."""
    (tmp_path / "delete.yaml").write_text(
        "operationId: purge\nparameters: {$ref: 'shared.yaml#/parameters'}\n"
        "requestBody: {content: {$ref: 'shared.yaml#/content'}}\nresponses: {$ref: 'shared.yaml#/responses'}\n"
    )
    (tmp_path / "shared.yaml").write_text(
        "parameters: [{name: tag, in: query, required: true, schema: {type: string}}]\n"
        "content: {text/plain: {}}\nresponses: {'204': {description: ''}}\n"
    )
    (tmp_path / "paths.yaml").write_text(
        "/a: {delete: {$ref: delete.yaml}, get: {$ref: 'root.json#/x-shared/get', summary: near}, post: {$ref: '#/x'}}"
    )
    shared = {"get": {"operationId": "all", "summary": "far", "parameters": [{"$ref": "#/components/parameters/T"}]}}
    parts = {"components": {"parameters": {"$ref": "#/x-parameters"}}, "x-shared": shared, "x-parameters": {"T": TRACE}}
    text = encode({**root({}), "paths": {"$ref": "paths.yaml"}, **parts})
    (tmp_path / "root.json").write_bytes(text)
    operations = found(read_document(text, folder=str(tmp_path)))
    purge, get = operations["DELETE /a"], operations["GET /a"]
    assert isinstance(purge, Operation)
    assert isinstance(get, Operation)
    assert (purge.id, [one["name"] for one in purge.parameters]) == ("purge", ["tag"])
    assert (purge.body, list(purge.responses)) == ({"content": {"text/plain": {}}}, ["204"])
    assert (get.id, get.summary, get.parameters) == ("all", "near", (TRACE,))
    assert operations["POST /a"] == "It refers to '#/x-files/paths.yaml/x', which the document does not have."
    with pytest.raises(DocumentError, match=r"'paths' cannot be read: It refers to the file 'gone.yaml'"):
        read_document(text.replace(b"paths.yaml", b"gone.yaml"), folder=str(tmp_path))


def test_only_files_that_operations_need_are_read(tmp_path: Path) -> None:
    (tmp_path / "get.yaml").write_text(
        "x-samples: [{$ref: broken.yaml}, {$ref: '../up.yaml'}, {$ref: a.txt}]\nsummary: s"
    )
    (tmp_path / "broken.yaml").write_text("a: 1\na: 2")
    more: Any = {"x-samples": {"$ref": "broken.yaml"}}
    read = read_document(encode(root({"/a": {"get": {"$ref": "get.yaml"}}}, **more)), folder=str(tmp_path))
    assert list(found(read)) == ["GET /a"]
    assert list(read.root["x-files"]) == ["get.yaml"]
    assert read.warnings == []


ASTRAY = [
    {"a": {"$ref": "#/x-parts/a"}},
    {"a": {"$ref": "#/x-parts/a/b"}},
    {"a": {"$ref": "#/x-parts/b/c"}, "b": {"$ref": "#/x-parts/a/c"}},
    {"a": {"$ref": "#"}},
    {"a": {"$ref": "#/paths/~1b"}},
    {"a": {"$ref": "#/info"}},
]


@pytest.mark.parametrize("parts", ASTRAY)
def test_references_that_lead_to_no_operation_are_left_out(parts: Any) -> None:
    item = {"get": {"$ref": "#/x-parts/a"}, "put": {"$ref": "#/x-parts/a/b/c"}}
    reasons = found(document({"/a": item, "/b": {"get": {}}}, **{"x-parts": parts}))
    assert list(reasons) == ["GET /a", "PUT /a", "GET /b"]
    for place in ("GET /a", "PUT /a"):
        assert str(reasons[place]).startswith(("It refers to ", "It has a chain of more than 32")), reasons


def test_openapi_9_a_document_that_knows_its_own_url_may_refer_to_itself_by_it() -> None:
    paths = {"/a": {"$ref": "shop#/components/x"}, "/b": {"$ref": "https://x.test/api/shop#/components/x"}}
    more = {"$self": "https://x.test/api/shop", "components": {"x": {"get": {}}}}
    read = read_document(encode({**root(paths, "3.2.0"), **more}))
    assert list(found(read)) == ["GET /a", "GET /b"]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{before}'] * 9)}]\n" for before, this in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML_REFUSED = [
    (BOMB, "its aliases make it more than 10 times as large (line 4)"),
    ("a: &a [*a]", "the alias 'a' stands inside what it stands for (line 1)"),
    ("a: *b", "it has the alias 'b' of nothing (line 1)"),
    ("a: 1\na: 2", "the key 'a' stands there twice (line 2)"),
    ("? [1]\n: 2", "it has a key that is no text (line 1)"),
    (
        "a: !!python/object:os.system x",
        "it has a value with the tag 'tag:yaml.org,2002:python/object:os.system' (line 1)",
    ),
    ("a: !!int x", "it has a value with the tag 'tag:yaml.org,2002:int' (line 1)"),
    ("a: 1\n---\nb: 2", "it holds a second document"),
    ("[" * 1000, "it is nested deeper than 150 levels (line 1)"),
    ("a: &a 1\nb: [" + "*a," * 1001 + "]", "it has more than 1000 aliases (line 2)"),
    ("<<: 1", "what '<<' adds is no mapping (line 1)"),
    ('a: "\\UFFFFFFFF"', "found invalid Unicode character escape code (line 1)"),
    ("a: \x01", "it holds a character that YAML does not allow"),
]


@pytest.mark.parametrize(("text", "reason"), YAML_REFUSED, ids=range(len(YAML_REFUSED)))
def test_openapi_8_yaml_that_is_a_trap_is_refused(text: str, reason: str) -> None:
    with pytest.raises(YamlTextError) as refusal:
        decode_yaml(text)
    assert str(refusal.value).startswith(reason)


def test_yaml_merges_and_tags_mean_what_they_say() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {x: 3, <<: [*a, {z: 4}]}\nc: !!str 1\nd: !!int '2'\ne: !!map {}\nf: !!null x\n"
    assert decode_yaml(text) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2, "z": 4},
        "c": "1",
        "d": 2,
        "e": {},
        "f": None,
    }
    value = [1, -2.5, "x", None, True, {"a": [[], {}], "b": "1"}]
    assert decode_yaml(json.dumps(value)) == value


SERVERS: list[tuple[str, list[Any], str]] = [
    ("https://api.example.test", [{"url": "/v2/"}], "/v2"),
    ("https://api.example.test", [{"url": "v2"}], "/v2"),
    ("https://api.example.test", [{"url": ""}], ""),
    ("https://api.example.test", [{"url": "./"}], ""),
    ("https://api.example.test", [], ""),
    ("https://api.example.test", [{"url": "https://other.test/v2"}], "/v2"),
    ("https://api.example.test", [{"url": "https://other.test/x"}, {"url": "https://API.example.test:443/v2"}], "/v2"),
    ("https://api.example.test/own", [{"url": "https://other.test/v2"}], ""),
    ("https://api.example.test", [{"url": "https://{host}/{base}", "variables": {"base": {"default": "v2"}}}], "/v2"),
]


@pytest.mark.parametrize(("url", "servers", "prefix"), SERVERS, ids=range(len(SERVERS)))
def test_openapi_51_a_server_of_the_document_gives_a_prefix_of_paths_only(
    url: str, servers: list[Any], prefix: str
) -> None:
    operation = found(document({"/a": {"get": {}}}, url=url, servers=servers))["GET /a"]
    assert isinstance(operation, Operation)
    assert operation.prefix == prefix


OWN_SERVERS = [
    ([{"url": "/v3"}], "/v3"),
    ([{"url": "https://other.test/v3"}], "/v3"),  # as the document's own
    ([{"url": "https://evil.test/"}], "It has a server of its own, 'https://evil.test'; calls go to the backend's"),
    ([{"url": "https://[/"}], "It has a server with the url 'https://[/', which is none."),
    ([{"url": "/../x"}], "It has a server with the path '/../x', which cannot be used."),
    ([{"url": "/{x}"}], "It has a server with the variable 'x', which has no value."),
    ([{"url": "/{region}"}], "/eu"),
    ([{}], "It has a server without a url."),
]


@pytest.mark.parametrize(("servers", "expected"), OWN_SERVERS, ids=range(len(OWN_SERVERS)))
def test_openapi_50_an_operation_with_a_server_elsewhere_is_no_tool(servers: list[Any], expected: str) -> None:
    paths = {"/a": {"get": {"servers": servers}}, "/b": {"servers": servers, "get": {}}, "/c": {"get": {}}}
    text = encode(root(paths, servers=[{"url": "https://other.test/v2"}]))
    read = found(read_document(text, "https://api.example.test", {"region": "eu"}))
    for place in ("GET /a", "GET /b"):
        entry = read[place]
        assert (entry.prefix if isinstance(entry, Operation) else entry).startswith(expected)
    whole = read["GET /c"]
    assert isinstance(whole, Operation)
    assert whole.prefix == "/v2"
    based = found(read_document(text, "https://api.example.test", {"region": "eu"}), base_path="/base/")
    whole = based["GET /c"]
    assert isinstance(whole, Operation)
    assert whole.prefix == "/base"
    assert isinstance(based["GET /a"], str)
    if expected.startswith("/"):
        own = found(read_document(text, "https://api.example.test/own", {"region": "eu"}))
        assert "the backend's url has a path too" in str(own["GET /a"])
