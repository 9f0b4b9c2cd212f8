"""Locks exclude, are shared, end with their process, and survive the removal of their file."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from specc.bundle.flock import try_lock, wait_lock

HOLD = (
    "import sys, time; from pathlib import Path; from specc.bundle.flock import wait_lock\n"
    "lock = wait_lock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)\n"
)


def test_exclusive_and_shared(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = try_lock(path, shared=True)
    second = try_lock(path, shared=True)
    assert first is not None
    assert second is not None
    assert try_lock(path) is None
    first.release()
    first.release()
    second.release()
    with wait_lock(path) as lock:
        assert try_lock(path, shared=True) is None
        assert lock.path.exists()
    assert not path.exists()


def test_a_killed_holder_leaves_no_stale_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert try_lock(path) is None
        child.kill()
    with wait_lock(path):
        pass


def test_waiters_on_a_removed_file_never_hold_together(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    inside, most, waited = 0, 0, []

    def work() -> None:
        nonlocal inside, most
        for _ in range(40):
            with wait_lock(path, on_wait=lambda: waited.append(1)):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert waited
