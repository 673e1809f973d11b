"""As much of HTTP/1.1 as callers and tool servers of the benchmark need: whole messages with a Content-Length."""

from __future__ import annotations


def reply(body: bytes, headers: str = "") -> bytes:
    """A whole 200 of JSON; `headers` are further lines, each with its line end."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def post(target: str, port: int, body: bytes) -> bytes:
    """A whole POST of JSON to a server on loopback."""
    head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def message_size(data: bytes) -> int | None:
    """How long the first HTTP message in `data` is, going by its Content-Length; None while its head is open."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return None
    fields = data[: head + 2].lower()
    length = fields.find(b"\r\ncontent-length:")
    if length < 0:
        return head + 4
    return head + 4 + int(fields[length + 17 : fields.index(b"\r\n", length + 17)])


def text_after(data: bytes, mark: bytes, default: bytes | None = None) -> bytes:
    """What stands between `mark` and the next quotation mark. Raises ValueError without `mark` and `default`."""
    start = data.find(mark)
    if start < 0 and default is not None:
        return default
    begin = data.index(mark) + len(mark)
    return data[begin : data.index(b'"', begin)]
