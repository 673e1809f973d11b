"""Documents of several files: what references name is read as part of the document, once something needs it.

Only for documents from a file whose operator allows it, and only below its folder. A reference to anything else stays
as it is, and the operation that needs it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from gateway.model import Json, JsonObject
from gateway.openapi.errors import UnresolvedError
from gateway.openapi.references import fragment_name, referring

MEMBER = "x-files"  # of the document: what the files hold, by their paths
SUFFIXES = (".json", ".yaml", ".yml")
MAX_FILES = 10_000  # that are read; others in the folder, such as samples of code, do not count
MAX_BYTES = 64 * 1024 * 1024  # of all files together


def bundle(root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> None:
    """Makes references of a document to files lead to a member of it, where each file is read when it is looked up.

    `decode` reads the text of a file; it raises ValueError.
    """
    root[MEMBER] = _Files(root, folder, decode)


class _Files(dict[str, Json]):
    """What files below a folder hold, by their paths below it, read when it is looked up. Raises UnresolvedError."""

    def __init__(self, root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> None:
        super().__init__()
        self._folder = Path(folder).resolve()
        self._decode = decode
        self._refused: dict[str, str] = {}
        self._size = 0
        self._seen: set[int] = set()  # objects that YAML aliases share are rewritten once
        self._rewrite(root, "")

    def __missing__(self, name: str) -> Json:
        if name not in self._refused:
            try:
                self[name] = value = self._read(name)
            except (OSError, ValueError) as exc:
                self._refused[name] = f"{exc.strerror}." if isinstance(exc, OSError) else str(exc)
            else:
                self._rewrite(value, name)
                return value
        raise UnresolvedError(f"It refers to the file {name[:120]!r}, which cannot be read: {self._refused[name]}")

    def _rewrite(self, value: Json, name: str) -> None:
        """Makes all references in a file, whose path below the folder is its name, lead into the document."""
        for node in referring(value, self._seen):
            file, _, fragment = node["$ref"].partition("#")
            other = _path(file, name) if file else name
            if other:
                node["$ref"] = f"#/{MEMBER}/{fragment_name(other)}{fragment}"

    def _read(self, name: str) -> Json:
        if len(self) >= MAX_FILES:
            raise ValueError(f"there are more than {MAX_FILES} files.")
        if not name.lower().endswith(SUFFIXES):
            raise ValueError("its name does not end like that of a document.")
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder) or not path.is_file():
            raise ValueError("it is no file below the document's folder.")
        with path.open("rb") as file:
            text = file.read(MAX_BYTES - self._size + 1)
        self._size += len(text)
        if self._size > MAX_BYTES:
            raise ValueError(f"all files together are larger than {MAX_BYTES} bytes.")
        return self._decode(text)


def _path(file: str, beside: str) -> str | None:
    """The path below the folder of a file that another one names; None for what is no such path."""
    if ":" in file or "?" in file or file.startswith(("/", "\\")):
        return None
    path = PurePosixPath(beside).parent / unquote(file)
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return "/".join(parts)
