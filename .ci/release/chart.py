"""The package of the chart.

Helm itself would write the current time into it. So it is put together here, in Helm's form: one folder with the name
of the chart, in a compressed archive.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import yaml

from release.tools import CHECKOUT, FailedError, MissingError, Release, must_be_same

WARNING = 2  # what Helm calls a severity


def pack(chart: Path, file: Path, epoch: int) -> None:
    """Writes the package of a chart. All files get one time, owner and mode, in the order of their names."""
    with (
        file.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart).as_posix()}")
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            archive.addfile(entry, io.BytesIO(content))


def build(release: Release) -> str:
    """Packs the chart twice, and has Helm judge the package with each file of values that is in it."""
    source = Path("helm/toolgate")
    about: dict[str, Any] = yaml.safe_load((release.copy / source / "Chart.yaml").read_text("utf-8"))
    if (about["version"], about["appVersion"]) != (release.version, release.version):
        raise FailedError(f"Chart.yaml has the versions {about['version']} and {about['appVersion']}")
    name = f"{about['name']}-{about['version']}.tgz"
    second = release.work / "chart" / name
    second.parent.mkdir()
    pack(CHECKOUT / source, release.dist / name, release.epoch)
    pack(release.copy / source, second, release.epoch)
    must_be_same(release.dist / name, second)
    judged = _judge(release.dist / name, release.work / "chart")
    return f"{name}: two packages are the same, and Helm renders it with {judged} files of values"


def _judge(package: Path, folder: Path) -> int:
    try:
        import helm_python
    except ImportError:
        raise MissingError(f"Helm is not installed: {package.name} was made, but nothing has judged it") from None
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")
    files = sorted(folder.glob("*/ci/*-values.yaml"))
    try:
        for file in files:
            values = yaml.safe_load(file.read_text("utf-8"))
            found = helm_python.lint(file.parents[1], values, strict=True)
            if found["errors"] or any(message["severity"] >= WARNING for message in found["messages"]):
                raise FailedError(f"Helm warns of {package.name} with {file.name}: {found}")
            with helm_python.Chart.load(package) as chart:
                if not chart.render(values, name="toolgate", namespace="default"):
                    raise FailedError(f"{package.name} renders to nothing with {file.name}")
    except helm_python.HelmError as exc:
        raise FailedError(f"Helm does not take {package.name}: {exc}") from exc
    return len(files)
