"""The server: this computer only, settings that hold, a port that is free."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from adapcla.errors import ExistsError, UsageError
from adapcla.studio import server
from adapcla.studio.server import SETTINGS, open_studio


def test_it_listens_on_this_computer_alone_with_a_token_of_its_own(tmp_path: Path) -> None:
    one, two = open_studio(tmp_path / "new"), open_studio(tmp_path)
    try:
        assert one.door.getsockname()[0] == "127.0.0.1" and one.port != two.port
        assert len(one.token) >= 40 and one.token != two.token
        assert one.address == f"http://127.0.0.1:{one.port}/?token={one.token}"
        assert one.folder.is_dir()
        with pytest.raises(ExistsError, match="in use"):
            open_studio(tmp_path, one.port)
    finally:
        one.door.close()
        two.door.close()


def test_a_file_is_no_folder_and_an_absent_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExistsError, match="not a folder"):
        open_studio(tmp_path / "file")
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"adapcla\[ui\]"):
        open_studio(tmp_path)


def test_settings_hold_whatever_files_of_settings_say(tmp_path: Path) -> None:
    """A file of settings in the folder asks for statistics, another address and no protection."""
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(
        "[browser]\ngatherUsageStats = true\n[server]\naddress = '0.0.0.0'\nenableXsrfProtection = false\n"
    )
    script = (
        "import sys; from pathlib import Path; from adapcla.studio.server import SETTINGS, settle\n"
        "settle(Path('.'), 8765)\nfrom streamlit import config\n"
        "print([name for name, value in SETTINGS.items() if config.get_option(name) != value])\n"
        "print([name for name in ('torch', 'pandas', 'pyarrow', 'matplotlib', 'polars') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-2:] == ["[]", "[]"], ran.stderr
    assert SETTINGS["browser.gatherUsageStats"] is False and SETTINGS["server.enableXsrfProtection"] is True
