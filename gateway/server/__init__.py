"""The HTTP/1.1 server: uvicorn's machinery, with the limits and the strictness a public listener needs."""

from gateway.server.options import Addresses, ServerError, ServerOptions
from gateway.server.run import main_loop, raise_open_files, run

__all__ = ["Addresses", "ServerError", "ServerOptions", "main_loop", "raise_open_files", "run"]
