"""Documents of several files: what references name becomes part of the document, and references of that lead there.

Only for documents from a file whose operator allows it, and only below its folder. A reference to anything else stays
as it is, and the operation that needs it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from gateway.model import Json, JsonObject
from gateway.openapi.references import fragment_name, referring

MEMBER = "x-files"  # of the document: what the files hold, by their paths
SUFFIXES = (".json", ".yaml", ".yml")
MAX_FILES = 1000
MAX_BYTES = 64 * 1024 * 1024  # of all files together


def bundle(root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> list[str]:
    """Puts the files that a document refers to into it. Returns warnings about those that it cannot have.

    `decode` reads the text of a file; it raises ValueError.
    """
    return _Bundle(root, folder, decode).warnings


class _Bundle:
    def __init__(self, root: JsonObject, folder: str, decode: Callable[[bytes], Json]) -> None:
        self.warnings: list[str] = []
        self._folder = Path(folder).resolve()
        self._decode = decode
        self._files: JsonObject = {}
        self._refused: set[str] = set()
        self._size = 0
        self._seen: set[int] = set()  # objects that YAML aliases share are rewritten once
        waiting: list[tuple[Json, str]] = [(root, "")]  # with the path of its file below the folder
        while waiting:
            value, name = waiting.pop()
            waiting += ((self._files[found], found) for found in self._rewrite(value, name))
        root[MEMBER] = self._files

    def _rewrite(self, value: Json, name: str) -> list[str]:
        """Makes all references in a file lead into the document; returns the names of files that are new."""
        found: list[str] = []
        for node in referring(value, self._seen):
            file, _, fragment = node["$ref"].partition("#")
            other = self._named(file, name) if file else name
            if other and (not file or self._have(other, found)):
                node["$ref"] = f"#/{MEMBER}/{fragment_name(other)}{fragment}"
        return found

    def _named(self, file: str, beside: str) -> str | None:
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

    def _have(self, name: str, new: list[str]) -> bool:
        """Reads a file, unless it was read; false if the document cannot have it."""
        if name in self._files:
            return True
        if name in self._refused:
            return False
        try:
            self._files[name] = self._read(name)
        except (OSError, ValueError) as exc:
            self._refused.add(name)
            reason = exc.strerror if isinstance(exc, OSError) else str(exc)
            self.warnings.append(f"The file {name!r} cannot be part of the document: {reason}")
            return False
        new.append(name)
        return True

    def _read(self, name: str) -> Json:
        if len(self._files) >= MAX_FILES:
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
