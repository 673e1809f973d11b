"""The archives that `make release` writes itself: the same files give the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release.chart import pack
from release.image import normalize
from release.tools import FailedError, must_be_same

LAYER = b"layer" * 100


def test_a_chart_is_packed_alike_whatever_the_times_modes_and_order_of_its_files(tmp_path: Path) -> None:
    names = ["Chart.yaml", "templates/a.yaml", "templates/b.yaml"]
    packed = []
    for number, order in enumerate((names, names[::-1])):
        chart = tmp_path / str(number) / "toolgate"
        for name in order:
            file = chart / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
            file.chmod(0o600 + 0o44 * number)
            os.utime(file, (number, number))
        packed.append(tmp_path / f"{number}.tgz")
        pack(chart, packed[-1], 1_700_000_000)
    assert packed[0].read_bytes() == packed[1].read_bytes()
    with tarfile.open(packed[0]) as archive:
        assert archive.getnames() == [f"toolgate/{name}" for name in names]
        assert {(one.mtime, one.mode, one.uid) for one in archive} == {(1_700_000_000, 0o644, 0)}


def _save(file: Path, container: str, label: str = "0.2.0") -> None:
    """Writes what `podman save` writes of an image that was built in some container."""
    config: dict[str, Any] = {
        "container": container,
        "config": {"Hostname": container, "Labels": {"version": label}},
        "container_config": {"Hostname": container},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(LAYER).hexdigest()}"]},
    }
    text = json.dumps(config).encode()
    manifest = [{"Config": f"{container}.json", "RepoTags": ["localhost/toolgate:0.2.0"], "Layers": ["layer.tar"]}]
    contents = {"layer.tar": LAYER, f"{container}.json": text, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(file, "w") as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_an_image_is_saved_alike_whatever_container_it_was_built_in(tmp_path: Path) -> None:
    made = []
    for container in ("a", "b"):
        _save(tmp_path / f"{container}.tar", container)
        made.append(tmp_path / f"normalized-{container}.tar")
        normalize(tmp_path / f"{container}.tar", made[-1])
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        held = {member.name: archive.extractfile(member) for member in archive}
        read = {name: content.read() for name, content in held.items() if content is not None}
    (manifest,) = json.loads(read["manifest.json"])
    text = read[manifest["Config"]]
    assert manifest["Config"] == f"{hashlib.sha256(text).hexdigest()}.json"  # an image is named by the digest of this
    assert json.loads(text)["config"] == {"Labels": {"version": "0.2.0"}}
    assert read["layer.tar"] == LAYER


def test_images_that_differ_are_not_saved_alike(tmp_path: Path) -> None:
    made = []
    for label in ("0.2.0", "0.2.1"):
        folder = tmp_path / label
        folder.mkdir()
        _save(folder / "saved.tar", "a", label)
        made.append(folder / "image.tar")
        normalize(folder / "saved.tar", made[-1])
    with pytest.raises(FailedError, match=r"two builds of image\.tar differ"):
        must_be_same(*made)
