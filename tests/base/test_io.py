"""Files are written whole or not at all."""

import os
import signal
import subprocess
import sys

import pytest

from privglasso.base.io import write_whole


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
