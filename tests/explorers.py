"""A small translator in the explorer, and a server for it with real sockets."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI

from helpers import randomise
from regard.codecs.subword import SubwordTokenizer
from regard.models.transformer import TransformerConfig
from regard.serve.explorer import Explorer
from regard.serve.server import Server, _listening
from regard.tasks.translation import Translator

TOKENIZER = SubwordTokenizer.train("bpe", 280, ["the child eats bread", "el niño come pan"])
REQUEST = {"inputs": {"source": "the child"}, "target": "el niño"}


def small_explorer() -> Explorer:
    config = TransformerConfig(vocab_size=TOKENIZER.vocab_size, width=8, heads=2, ff_width=8, encoder_layers=1)
    return Explorer(Translator(randomise(config.build()).float(), TOKENIZER, TOKENIZER), "mine")


@contextmanager
def running(app: FastAPI) -> Iterator[tuple[int, Server]]:
    """The port of a running server, and the server."""
    server = Server(app)
    with _listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1], server
        finally:
            server.should_exit = True
            thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def request(verb: str, arguments: dict[str, Any], **headers: str) -> bytes:
    """The bytes of a request."""
    body = json.dumps(arguments).encode()
    lines = [f"POST /api/{verb} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer(port: int, verb: str, arguments: dict[str, Any]) -> bytes:
    """The response to a request."""
    with connect(port) as client:
        client.sendall(request(verb, arguments, Connection="close"))
        return b"".join(iter(lambda: client.recv(65536), b""))
