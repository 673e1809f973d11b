"""An HTTP API on FastAPI: `app.py KEY`. One half says what it decoded, the other does what no API should.

Started by the interpreter of `.venvs/openapi`; prints its port as JSON. Its document is FastAPI's own, under
`/openapi.json`. `GET /runs` says how often each operation ran.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date
from enum import StrEnum
from typing import Annotated, Any

import uvicorn
from fastapi import Cookie, Depends, FastAPI, File, Form, Header, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c63fccfc0500f0004850180a84c2a630000000049454e44ae426082"
)
runs: Counter[str] = Counter()


class Colour(StrEnum):
    red = "red"
    green = "light green"


class Note(BaseModel):
    """A note, which can hold others."""

    model_config = ConfigDict(extra="forbid")

    title: str = Field(min_length=1, max_length=50)
    stars: int | None = None
    day: date | None = None
    parts: list[Note] = []


class StoredNote(Note):
    id: int


async def count(request: Request) -> None:
    runs[request.scope["route"].name] += 1


app = FastAPI(title="Notes", version="2.1", dependencies=[Depends(count)])
bearer = HTTPBearer()


@app.get("/items/{item_id}")
async def read_item(
    item_id: int,
    q: str | None = None,
    colour: Colour = Colour.red,
    tag: Annotated[list[str], Query()] = [],  # noqa: B006 - what FastAPI wants
    ratio: float | None = None,
    strict: bool = False,
    x_tenant: Annotated[str | None, Header()] = None,
    session: Annotated[str | None, Cookie()] = None,
) -> dict[str, Any]:
    """Says what it decoded of path, query, header and cookie."""
    given = {"item_id": item_id, "q": q, "colour": colour.value, "tag": tag, "ratio": ratio, "strict": strict}
    return {**given, "x_tenant": x_tenant, "session": session}


@app.post("/notes", status_code=201)
async def create_note(note: Note, response: Response) -> StoredNote:
    """Says what it decoded of a JSON body."""
    response.headers["Location"] = "/notes/7"
    return StoredNote(id=7, **note.model_dump())


@app.put("/notes/{note_id}")
async def replace_note(note_id: int, note: Note, notify: bool = True) -> dict[str, Any]:
    """A body and parameters at once."""
    return {"note_id": note_id, "notify": notify, "note": note.model_dump(mode="json")}


@app.delete("/notes/{note_id}", status_code=204)
async def delete_note(note_id: int) -> None:
    """Returns nothing."""


@app.post("/tags")
async def set_tags(tags: list[str]) -> list[str]:
    """A body that is an array."""
    return tags


@app.post("/form")
async def fill_form(name: Annotated[str, Form()], tag: Annotated[list[str], Form()] = []) -> dict[str, Any]:  # noqa: B006
    """A form."""
    return {"name": name, "tag": tag}


@app.post("/files")
async def upload(file: Annotated[UploadFile, File()], name: Annotated[str, Form()]) -> dict[str, Any]:
    """A file and a field."""
    data = await file.read()
    return {"name": name, "filename": file.filename, "type": file.content_type, "hex": data.hex()}


@app.get("/pixel", response_class=Response, responses={200: {"content": {"image/png": {}}}})
async def pixel() -> Response:
    """A picture."""
    return Response(PIXEL, media_type="image/png")


@app.get("/plain", response_class=PlainTextResponse)
async def plain() -> str:
    """A text."""
    return "plain text"


@app.get("/slash/")
async def slash(value: str) -> str:
    """Its path ends in a slash, which FastAPI minds."""
    return value


@app.post("/slash/")
async def post_slash(value: str) -> str:
    return value


@app.get("/me")
async def me(token: Annotated[HTTPAuthorizationCredentials, Depends(bearer)]) -> dict[str, Any]:
    """Wants a token."""
    if token.credentials != sys.argv[1]:
        raise HTTPException(401, f"{token.credentials} is not known")
    return {"known": True}


# What breaks.

Endless = AsyncIterator[bytes]
elsewhere = "http://127.0.0.1:9/stolen"


class Wrong(BaseModel):
    """What the operations that break say they return."""

    value: int


def wrong(path: str, **more: Any) -> Callable[[Callable[..., Awaitable[Any]]], Any]:
    return app.get(f"/wrong/{path}", operation_id=f"wrong_{path}", name=f"wrong_{path}", tags=["wrong"], **more)


def declared(path: str) -> Callable[[Callable[..., Awaitable[Any]]], Any]:
    """An operation that says it returns JSON, and returns what it likes."""
    return wrong(path, responses={200: {"model": Wrong}})


@declared("crash")
async def crash() -> Any:
    raise RuntimeError("canary-in-the-traceback")


@declared("schema")
async def schema() -> Any:
    return JSONResponse({"value": "forty-two"})


@declared("html")
async def html() -> Any:
    return HTMLResponse("<html><body>Log in, <b>please</b></body></html>")


@declared("cut")
async def cut() -> Any:
    return Response(b'{"value": 4', media_type="application/json")


@declared("nan")
async def nan() -> Any:
    return Response(b'{"value": NaN}', media_type="application/json")


@declared("deep")
async def deep() -> Any:
    return Response(b"[" * 100_000 + b"]" * 100_000, media_type="application/json")


@declared("latin")
async def latin() -> Any:
    return Response('{"value": "é"}'.encode("latin-1"), media_type="application/json")


@declared("gzip")
async def gzip() -> Any:
    return Response(b"\x1f\x8b\x08\x00broken", media_type="application/json", headers={"Content-Encoding": "gzip"})


@declared("empty")
async def empty() -> Any:
    return Response(b"", media_type="application/json")


@declared("endless")
async def endless() -> Any:
    async def pieces() -> Endless:
        while True:
            yield b"[" * 65536
            await asyncio.sleep(0)  # or nobody would see that its reader has left

    return StreamingResponse(pieces(), media_type="application/json")


@declared("dropped")
async def dropped() -> Any:
    return Response(b'{"value": 1}', media_type="application/json", headers={"Content-Length": "4000"})


@declared("redirect")
async def redirect() -> Any:
    return RedirectResponse(elsewhere)


@declared("loop")
async def loop() -> Any:
    return RedirectResponse("/wrong/loop")


@declared("status")
async def status(code: Annotated[int, Query(ge=300, le=599)], words: str = "as asked") -> Any:
    """Any status, with a problem (RFC 9457)."""
    headers = {"Retry-After": "7"} if code in (429, 503) else {}
    if code == 304:
        return Response(status_code=304)
    content = {"title": "Asked for", "detail": words, "status": code}
    return JSONResponse(content, code, headers, "application/problem+json")


@app.get("/runs", include_in_schema=False)
async def told() -> Counter[str]:
    """How often each operation ran."""
    return runs


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
