"""`regard explore` as a user starts and stops it."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("fastapi")

QUESTION = {"inputs": {"source": "we are eating bread " * 20}, "target": "pan " * 30}


def ask(url: str, statuses: list[int]) -> None:
    request = urllib.request.Request(f"{url}api/heads", json.dumps(QUESTION).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            statuses.append(response.status)
    except urllib.error.HTTPError as error:
        statuses.append(error.code)


@pytest.mark.parametrize(
    ("sent", "code", "expected"),
    [(signal.SIGINT, 130, {200, 503}), (signal.SIGTERM, -signal.SIGTERM, {200})],
    ids=["Ctrl-C cancels", "SIGTERM waits for"],
)
def test_it_answers_and_stops_cleanly_with_requests_pending(sent, code, expected) -> None:
    command = [sys.executable, "-u", "-m", "regard", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = re.search(r"http://localhost:\d+/", process.stdout.readline()).group()
            with urllib.request.urlopen(f"{url}health", timeout=60) as response:
                assert json.load(response) == {"status": "ok", "model": "en-es"}
            statuses: list[int] = []
            threads = [threading.Thread(target=ask, args=(url, statuses)) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.3)  # until they are pending; if they are not, the test passes, too
            process.send_signal(sent)
            _, errors = process.communicate(timeout=60)
            for thread in threads:
                thread.join()
        finally:
            process.kill()
    assert errors == ""
    assert process.returncode == code
    assert len(statuses) == 3
    assert {*statuses} <= expected
