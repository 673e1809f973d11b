"""The configuration file as commands take it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway import config
from gateway.errors import ConfigError
from gateway.settings import Config

DEFAULT = Path("gateway.yaml")


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds `-c FILE`."""
    parser.add_argument("-c", "--config", type=Path, default=DEFAULT, metavar="FILE", help="default: %(default)s")


def load(path: Path, *, allow_missing_env: bool = False) -> Config:
    """Reads the file. Raises ConfigError."""
    if not path.exists():
        raise ConfigError([f"{path}: there is no such file; say which configuration to use"])
    return config.load(path, allow_missing_env=allow_missing_env)
