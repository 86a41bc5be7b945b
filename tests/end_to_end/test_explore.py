"""`regard explore`, started and interrupted as on the command line."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("fastapi")


def test_explore_prints_its_address_answers_and_exits_cleanly() -> None:
    command = [sys.executable, "-u", "-m", "regard", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://localhost:\d+/", process.stdout.readline()).group()
            with urllib.request.urlopen(f"{url}health", timeout=60) as response:
                assert json.load(response) == {"status": "ok", "model": "en-es"}
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "Traceback" not in errors
