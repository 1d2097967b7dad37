"""`adapcla studio`, from the command line: it prints its address, answers only who knows the token, and ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("streamlit")


def test_it_prints_an_address_with_a_token_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "adapcla", "studio", str(tmp_path / "w"), "--json"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())
            assert told["address"].startswith(f"http://127.0.0.1:{told['port']}/?token=")
            assert told["folder"] == str((tmp_path / "w").resolve()) and (tmp_path / "w").is_dir()
            with urllib.request.urlopen(told["address"], timeout=60) as answer:
                cookie = answer.headers["set-cookie"].partition(";")[0]
            bare = f"http://127.0.0.1:{told['port']}"
            for place in ("/", "/_stcore/health", "/_stcore/host-config", "/static/js/index.js", "/media/x"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(bare + place, timeout=60)
                assert refused.value.code == 403
            known = urllib.request.Request(f"{bare}/_stcore/health", headers={"Cookie": cookie})
            with urllib.request.urlopen(known, timeout=60) as answer:
                assert answer.status == 200
        finally:
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=60)[1]
    # The token is on the screen once, where it was asked for, and in no line about requests.
    assert "token" not in said and "Traceback" not in said


def test_a_port_that_is_taken_is_an_error_in_words(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        call = [sys.executable, "-m", "adapcla", "studio", str(tmp_path), "--port", str(taken.getsockname()[1])]
        ran = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 4 and "in use" in ran.stderr and "to do:" in ran.stderr
