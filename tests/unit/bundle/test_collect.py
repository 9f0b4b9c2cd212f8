"""Collection takes what is old or too much, the least recently used first, and nothing that is in use."""

from __future__ import annotations

import os
import time
from pathlib import Path

from specc.bundle.digests import key_from_parts
from specc.bundle.objects import OBJECT_FILE, StoreFolders
from specc.bundle.store import Store

DAY = 86400


def _filled(root: Path, ages: dict[str, float], size: int = 1000) -> dict[str, str]:
    """Make one object a name, last used so many days ago; return the keys by name."""
    keys = {name: key_from_parts({"name": name}) for name in ages}
    with Store(root) as store:
        for name, age in ages.items():
            folder = store.obtain(keys[name], lambda folder: (folder / "f").write_bytes(bytes(size)) and None, name)
            then = time.time() - age * DAY
            os.utime(folder / OBJECT_FILE, (then, then))
    return keys


def _names(store: Store) -> list[str | None]:
    return [entry.describe for entry in store.entries()]


def test_entries_tell_age_and_size(tmp_path: Path) -> None:
    keys = _filled(tmp_path, {"new": 1, "old": 30})
    with Store(tmp_path) as store:
        old, new = store.entries()
    assert (old.describe, old.key, new.describe) == ("old", keys["old"], "new")
    assert old.size == old.freed
    assert 1000 < old.size < 2000
    assert abs(old.last_used - (time.time() - 30 * DAY)) < 60


def test_by_age(tmp_path: Path) -> None:
    keys = _filled(tmp_path, {"new": 1, "old": 30, "older": 60})
    with Store(tmp_path) as store:
        assert store.collect(None, None) == 0
        size = store.entries()[0].size
        assert store.collect(7, None) in range(2 * size - 10, 2 * size + 10)
        assert _names(store) == ["new"]
    assert [path.name for path in (tmp_path / "locks").iterdir()] == [f"{keys['new']}.use"]


def test_by_amount(tmp_path: Path) -> None:
    _filled(tmp_path, {"new": 1, "old": 30, "older": 60})
    with Store(tmp_path) as store:
        total = sum(entry.size for entry in store.entries())
        store.collect(None, total - 1)
        assert _names(store) == ["old", "new"]
        store.collect(None, 0)
        assert _names(store) == []


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    keys = _filled(tmp_path, {"used": 60, "unused": 30})
    with Store(tmp_path) as user:
        user.obtain(keys["used"], _never, "used")
        with Store(tmp_path) as collector:
            collector.collect(0, 0)
            assert _names(collector) == ["used"]
    with Store(tmp_path) as collector:
        collector.collect(0, 0)
        assert _names(collector) == []


def test_damaged_objects_go_and_foreign_folders_stay(tmp_path: Path) -> None:
    keys = _filled(tmp_path, {"damaged": 1})
    folders = StoreFolders(tmp_path)
    (folders.object(keys["damaged"]) / OBJECT_FILE).unlink()
    (folders.objects / "mine").mkdir()
    (folders.objects / "mine" / "notes").write_text("notes")
    with Store(tmp_path) as store:
        assert _names(store) == [None]
        assert store.collect(None, None) == 1000
        assert _names(store) == []
    assert (folders.objects / "mine" / "notes").exists()


def test_files_with_links_elsewhere_free_nothing(tmp_path: Path) -> None:
    keys = _filled(tmp_path / "cache", {"linked": 1})
    with Store(tmp_path / "cache") as store:
        folder = store.obtain(keys["linked"], _never, "linked")
        store.place(folder / "f", tmp_path / "bundle" / "f", link_bytes=0)
    with Store(tmp_path / "cache") as store:
        assert store.collect(0, None) < 1000
    assert (tmp_path / "bundle" / "f").read_bytes() == bytes(1000)


def _never(_: Path) -> None:
    raise AssertionError("the object is there")
