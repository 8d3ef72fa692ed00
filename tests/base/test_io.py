"""Files are written whole or not at all."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from privglasso.base.io import claimed, write_whole


@pytest.mark.parametrize(
    "error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()]
)
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "table.csv"
    write_whole(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"half of the n")
        raise error

    with pytest.raises(type(error)):
        write_whole(path, fail)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["table.csv"]


def test_a_write_to_nowhere_is_an_error(tmp_path):
    with pytest.raises(OSError):
        write_whole(tmp_path / "no folder" / "x", lambda file: None)


WRITER = """
import sys, time
from privglasso.base.io import write_whole

def slowly(file):
    file.write(b"half of the n")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)

write_whole(sys.argv[1], slowly)
"""


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"old")
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        writer.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old"
    write_whole(path, lambda file: file.write(b"new"))
    assert path.read_bytes() == b"new"


KILLED = """
import os, signal, sys
from privglasso.base.io import claimed, write_whole
def write(file):
    file.write(b"all of it")
    os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
with claimed(sys.argv[1]):
    write_whole(sys.argv[1], write)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name")
def test_a_killed_writer_leaves_nothing_to_read_and_the_place_is_free(tmp_path):
    path = tmp_path / "r.parquet"
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -signal.SIGKILL
    (claim,) = tmp_path.iterdir()
    assert claim.suffix == ".claim" and claim.read_bytes() == b""
    with claimed(path):
        write_whole(path, lambda file: file.write(b"again"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("nameless", [True, False])
def test_writers_of_one_path_do_not_meet(tmp_path, monkeypatch, nameless):
    "Each is whole and one of them is there, with and without files that have no name."
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path, texts = tmp_path / ("n" * 255), [bytes([65 + k]) * 10_000 for k in range(8)]
    threads = [
        threading.Thread(target=write_whole, args=(path, lambda f, t=t: f.write(t)))
        for t in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in texts and list(tmp_path.iterdir()) == [path]
