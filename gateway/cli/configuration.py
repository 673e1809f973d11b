"""The configuration file as commands take it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.core.errors import ConfigError
from gateway.settings import Config
from gateway.settings import load as reading

DEFAULT = Path("gateway.yaml")


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds `-c FILE`."""
    parser.add_argument(
        "-c", "--config", type=Path, default=DEFAULT, metavar="FILE", help="the configuration (default: %(default)s)"
    )


def load(path: Path, *, allow_missing_env: bool = False) -> Config:
    """Reads the file. Raises ConfigError."""
    return load_with_warnings(path, allow_missing_env=allow_missing_env).config


def load_with_warnings(path: Path, *, allow_missing_env: bool = False) -> reading.Loaded:
    """Reads the file, and warns of secrets in it. Raises ConfigError."""
    require(path)
    return reading.load_with_warnings(path, allow_missing_env=allow_missing_env)


def require(path: Path) -> None:
    """Raises ConfigError if there is no file."""
    if not path.exists():
        raise ConfigError([f"{path}: there is no such file; `toolgate init` writes one"])
