"""Data sets for tests: a web server, a registry and files of our own."""

import hashlib
import json
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from privglasso.base.settings import resource
from privglasso.data_sets import dataset

CONTENT = b"a,b\n1,2\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    "An empty cache folder that downloads go to."
    monkeypatch.delenv("PRIVGLASSO_DATA", raising=False)
    monkeypatch.setattr(dataset.pooch, "os_cache", lambda name: tmp_path / "cache")
    return tmp_path / "cache"


def _reaches_itself():
    "Whether a connection to this machine's own address can be made."
    with socket.create_server(("127.0.0.1", 0)) as listening:
        try:
            socket.create_connection(listening.getsockname(), timeout=5).close()
        except OSError:
            return False
    return True


@pytest.fixture
def server(tmp_path):
    "A web server on this machine with one file; its address."
    if not _reaches_itself():
        pytest.skip("needs a network on which this machine reaches itself")
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "toy.csv").write_bytes(CONTENT)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "web")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


@pytest.fixture
def register(monkeypatch):
    "A function that puts entries of our own in the place of the registry."
    return lambda **entries: monkeypatch.setattr(dataset, "_registry", lambda: entries)


@pytest.fixture
def local(tmp_path, register, monkeypatch):
    "A function that puts small files of our own in the place of registered ones."
    known = json.loads(resource("data/registry.json").read_text(encoding="utf-8"))
    monkeypatch.setenv("PRIVGLASSO_DATA", str(tmp_path))

    def put(**contents):
        for name, text in contents.items():
            path = tmp_path / known[name]["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            known[name] |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        register(**known)

    return put
