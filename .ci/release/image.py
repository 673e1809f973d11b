"""The image, as an archive that `podman load` and `docker load` take.

Its base is fetched from its registry, or the stand-in of the tests of deployment takes its place. The name of the
archive then says so: it shows that the recipe works, and is not for publishing.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from release import sbom
from release.tools import CHECKOUT, FailedError, MissingError, Release, must_be_same
from tests.deploy.podman import BASE, BUILD_S, Podman, need_containers, put_together, store

TRUSTED = "--volume=/etc/ssl/certs:/etc/ssl/certs:ro"  # whom this machine trusts, a proxy in its way for instance
OF_THE_BUILD = ("container", "Hostname")  # what the configuration of an image says of the container that built it
LIST = "from importlib.metadata import *; print(*(f'{one.name} {one.version}' for one in distributions()), sep='\\n')"


def build(release: Release, *, stand_in: bool) -> str:
    """Builds the image twice and compares both, then loads the archive into an empty store and runs it there."""
    name = f"toolgate-{release.version}-image-{platform.machine()}{'-on-a-stand-in' if stand_in else ''}.tar"
    made = [release.work / folder / name for folder in ("image-1", "image-2")]
    tag = f"toolgate:{release.version}"
    with _store(stand_in=stand_in) as podman:
        base = podman.inspect(BASE)["Id"]
        for source, file in zip((CHECKOUT, release.copy), made, strict=True):
            file.parent.mkdir()
            same_time = ("--no-cache", f"--timestamp={release.epoch}")
            podman.build(source, tag, "--network=host", TRUSTED, *same_time)
            saved = file.with_name("saved.tar")
            podman.output("save", "--quiet", "--format=docker-archive", f"--output={saved}", tag, timeout_s=BUILD_S)
            normalize(saved, file)
            saved.unlink()
        must_be_same(*made)
    with _store(load=made[0]) as podman:
        _try(podman, tag, release)
        id_ = podman.inspect(tag)["Id"]
    made[0].rename(release.dist / name)
    return f"{name}: two builds are the same, with the id sha256:{id_}, on the base with the id sha256:{base}"


@contextmanager
def _store(*, stand_in: bool = False, load: Path | None = None) -> Iterator[Podman]:
    """A store with the base image in it, or with what an archive holds."""

    def fill(podman: Podman) -> None:
        if load is not None:
            podman.output("load", "--quiet", f"--input={load}", timeout_s=BUILD_S)
        elif stand_in:
            put_together(podman)
        else:
            podman.output("pull", "--quiet", BASE, timeout_s=BUILD_S)  # Debian's podman knows whose name that is
            need_containers(podman, BASE)

    try:
        with store(fill) as podman:
            yield podman
    except pytest.skip.Exception as exc:
        raise MissingError(str(exc)) from exc
    except AssertionError as exc:
        raise FailedError(str(exc)) from exc


def normalize(saved: Path, file: Path) -> None:
    """Writes an archive that says nothing of the container in which the image was built.

    Format: Docker Image Specification 1.2, combined image JSON and file system changeset format.
    """
    with tarfile.open(saved) as before:
        (manifest,) = _json(before, "manifest.json")
        config = _json(before, manifest["Config"])
        for part in (config, config.get("config", {}), config.get("container_config", {})):
            for key in OF_THE_BUILD:
                part.pop(key, None)
        text = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
        manifest["Config"] = f"{hashlib.sha256(text).hexdigest()}.json"
        manifests = json.dumps([manifest], sort_keys=True, separators=(",", ":")).encode()
        with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as after:
            _add(after, "manifest.json", io.BytesIO(manifests), len(manifests))
            _add(after, manifest["Config"], io.BytesIO(text), len(text))
            for layer in dict.fromkeys(manifest["Layers"]):
                content = before.extractfile(layer)
                assert content is not None
                _add(after, layer, content, before.getmember(layer).size)


def _json(archive: tarfile.TarFile, name: str) -> Any:
    content = archive.extractfile(name)
    assert content is not None
    return json.load(content)


def _add(archive: tarfile.TarFile, name: str, content: Any, size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o444
    archive.addfile(entry, content)


def _try(podman: Podman, tag: str, release: Release) -> None:
    said = podman.run("--rm", tag, "--version")
    if said.stdout != f"toolgate {release.version}\n":
        raise FailedError(f"the image says {said.stdout!r} when asked for its version: {said.stderr}")
    mounted = f"--volume={CHECKOUT}/config/minimal.yaml:/etc/toolgate/gateway.yaml:ro"
    said = podman.run("--rm", mounted, tag, "check", "gateway.yaml")
    if said.returncode or "good" not in said.stdout:
        raise FailedError(f"the image says of config/minimal.yaml: {said.stdout}{said.stderr}")
    label = podman.inspect(tag)["Config"]["Labels"]["org.opencontainers.image.version"]
    if label != release.version:
        raise FailedError(f"the label of the image says version {label}")
    said = podman.run("--rm", "--entrypoint=/opt/toolgate/bin/python", tag, "-I", "-c", LIST)
    found = {sbom.normalized(name): version for name, version in map(str.split, said.stdout.splitlines())}
    if found.pop("toolgate-gateway", None) != release.version:
        raise FailedError("the image has another version of Toolgate")
    release.packages.update(found)
