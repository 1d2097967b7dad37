"""The server of the studio: on this computer only, behind its guard, asking nothing of anybody."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adapcla.errors import ExistsError, UsageError

#: Names the folder for the pages, which run inside the server.
FOLDER = "ADAPCLA_STUDIO_FOLDER"
ADDRESS = "127.0.0.1"
#: The port that is tried first; a free one is taken where it is in use.
FIRST_PORT = 8765
#: Largest table that can be dropped on the page, in megabytes; larger ones are named by their path.
MOST_MEGABYTES = 500
#: Streamlit's settings, which win over any file of settings on this computer.
SETTINGS: dict[str, Any] = {
    "browser.gatherUsageStats": False,
    "browser.serverAddress": ADDRESS,
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "global.developmentMode": False,
    "logger.level": "error",
    "server.address": ADDRESS,
    "server.enableAgentApi": False,
    "server.enableCORS": True,
    "server.enableStaticServing": False,
    "server.enableXsrfProtection": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": MOST_MEGABYTES,
    "theme.dark.primaryColor": "#4C9BDB",
    "theme.light.primaryColor": "#2A78B8",
}


@dataclass(frozen=True, eq=False)
class Studio:
    """A bound port, a token and a folder: all that it takes to serve."""

    folder: Path
    token: str
    door: socket.socket

    @property
    def port(self) -> int:
        """The port."""
        return int(self.door.getsockname()[1])

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until Ctrl-C; jobs that were started go on."""
        import uvicorn
        from streamlit.starlette import App

        from adapcla.studio.guard import Guard

        settle(self.folder, self.port)
        inside = App(Path(__file__).with_name("app.py"))
        guarded = Guard(inside, self.token, self.port)
        config = uvicorn.Config(guarded, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        # A line for each request would hold the token.
        logging.getLogger("uvicorn.access").disabled = True
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        ready()
        uvicorn.Server(config).run(sockets=[self.door])


def opened(folder: Path, port: int | None = None) -> Studio:
    """A studio in this folder, which is made where it is not there, at a port of this computer alone."""
    if find_spec("streamlit") is None:
        raise UsageError("the studio is not installed\nto do: pip install 'adapcla[ui]'")
    root = folder.expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise ExistsError(f"{folder} is not a folder\nto do: name a folder to work in")
    root.mkdir(parents=True, exist_ok=True)
    return Studio(root, secrets.token_urlsafe(32), _bound(port))


def _bound(port: int | None) -> socket.socket:
    """A listening socket at this port; at the usual one, or any that is free, where none is named."""
    for wanted in [FIRST_PORT, 0] if port is None else [port]:
        door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((ADDRESS, wanted))
        except OSError:
            door.close()
            continue
        door.listen(128)
        door.set_inheritable(False)
        return door
    raise ExistsError(f"port {port} is in use\nto do: leave --port out, or name another")


def settle(folder: Path, port: int) -> None:
    """Say to Streamlit how it has to behave, and to the pages where they work."""
    from streamlit.web.bootstrap import load_config_options

    os.environ[FOLDER] = str(folder)
    load_config_options({**SETTINGS, "server.port": port})
