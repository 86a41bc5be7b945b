"""Throughput of the explorer under overload: 100 clients beside 8, which is as many as may wait.

    python benchmarks/explorer_load.py

Each client asks a new question as soon as it has an answer; if it is refused, it tries again after 20 to 100 ms, and
ignores Retry-After. Both numbers of clients take turns. The target is a ratio of 0.8. The processor time of the server
for an answer depends less on other processes.
"""

import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from harness import machine

ROUNDS, SECONDS, FEW, MANY = 6, 10.0, 8, 100
SENTENCE = "In {year}, the old teacher walked to the red house near the sea."
TARGET = "El viejo maestro fue a la casa roja."


async def status(port: int, body: bytes) -> int:
    """The status of the response to one request, on a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /api/read HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    response = await reader.read()
    writer.close()
    return int(response[9:12])


async def client(port: int, end: float) -> int:
    """The number of answers until the end."""
    answers = 0
    while time.monotonic() < end:
        source = SENTENCE.format(year=random.randrange(10**6))
        body = json.dumps({"inputs": {"source": source}, "target": TARGET}).encode()
        if await status(port, body) != 200:
            await asyncio.sleep(random.uniform(0.02, 0.1))
        elif time.monotonic() < end:
            answers += 1
    return answers


def processor_seconds(process: int) -> float:
    """The processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def throughput(process: int, port: int, clients: int) -> tuple[float, float]:
    """Answers per second to this many clients, and milliseconds of processor time for each."""
    before, end = processor_seconds(process), time.monotonic() + SECONDS
    running = [asyncio.ensure_future(client(port, end)) for _ in range(clients)]
    await asyncio.sleep(SECONDS)
    used = processor_seconds(process) - before
    answers = sum(await asyncio.gather(*running))
    return answers / SECONDS, 1000 * used / answers


def main() -> None:
    """Start the server as a process of its own, and print a table."""
    command = [sys.executable, "-u", "-m", "regard", "explore", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = re.search(r":(\d+)/", server.stdout.readline())
        assert found is not None
        port = int(found[1])
        asyncio.run(throughput(server.pid, port, FEW))  # a warm-up
        counts = [FEW, MANY] * ROUNDS
        measured = [asyncio.run(throughput(server.pid, port, clients)) for clients in counts]
        server.terminate()
    few, many = measured[::2], measured[1::2]
    print(f"{machine()}; {ROUNDS} rounds of {SECONDS:.0f} seconds")
    print(f"| | {FEW} clients | {MANY} clients | ratio |\n|---|---|---|---|")
    for i, name in enumerate(("answers per second", "processor time of an answer, ms")):
        one, other = [values[i] for values in few], [values[i] for values in many]
        ratios = sorted(b / a for a, b in zip(one, other, strict=True))
        interval = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"| {name} | {statistics.median(one):.1f} | {statistics.median(other):.1f} | {interval} |")


if __name__ == "__main__":
    main()
