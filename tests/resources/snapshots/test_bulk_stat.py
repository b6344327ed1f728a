"""The bulk stat tells what ``lstat`` tells, and a scan that uses it misses no change."""

import os
import sys
from pathlib import Path

import pytest

from turntree.resources.snapshots.bulk_stat import columns_of, find_bulk_stat
from turntree.resources.snapshots.capture import keep_folder
from turntree.resources.snapshots.scan import sign_of
from turntree.resources.snapshots.store import ObjectStore

LONG_AGO_NS = 1_600_000_000_123_456_789
BEFORE_1970_NS = -1_500_000_001
LARGE = 4_100
"""Files from which a scan uses the bulk stat."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")


def test_columns_of_many_files_equal_those_of_their_signs(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"file{number:03}").write_bytes(b"x" * number)
        os.utime(tmp_path / f"file{number:03}", ns=(0, LONG_AGO_NS + number))
    os.utime(tmp_path / "file007", ns=(0, BEFORE_1970_NS))
    (tmp_path / "file008").chmod(0o700)
    (tmp_path / "link").symlink_to("nowhere")
    names = sorted(os.fsencode(path.name) for path in tmp_path.iterdir())
    bulk = find_bulk_stat()
    assert bulk is not None

    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        for some in (names, names[:256], names[:1], []):
            signs = [sign_of(os.lstat(name, dir_fd=fd)) for name in some]
            assert bulk.columns(fd, some) == columns_of(signs)
        assert bulk.columns(fd, [*names, b"gone"]) is None
    finally:
        os.close(fd)


@pytest.mark.parametrize("at", range(5))
def test_columns_differ_when_any_part_of_a_sign_differs(at: int) -> None:
    sign = [LONG_AGO_NS, LONG_AGO_NS + 1, 2, 3, 4]
    other = [*sign]
    other[at] += 1

    assert columns_of([tuple(sign)]) != columns_of([tuple(other)])


def test_large_folder_is_kept_as_it_is_after_every_kind_of_change(tmp_path: Path) -> None:
    place = tmp_path / "work"
    for number in range(LARGE):
        path = place / f"part{number // 100}" / f"file{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%06d" % number)
        os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    store = ObjectStore(str(tmp_path / "store"))
    states = [keep_folder(store, os.fsencode(place)).state]
    assert keep_folder(store, os.fsencode(place)).state == states[0]

    for number, change in enumerate((_same_size_and_time, _mode, _replace, _remove, _link)):
        change(place / "part3" / f"file{310 + number}")
        states.append(keep_folder(store, os.fsencode(place)).state)

    assert len(set(states)) == len(states)
    afresh = ObjectStore(str(tmp_path / "afresh"))
    assert keep_folder(afresh, os.fsencode(place)).state == states[-1]


def _same_size_and_time(path: Path) -> None:
    path.write_bytes(b"/other")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


def _mode(path: Path) -> None:
    path.chmod(0o700)


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"/moved")
    os.utime(other, ns=(LONG_AGO_NS, LONG_AGO_NS))
    other.rename(path)


def _remove(path: Path) -> None:
    path.unlink()


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("file0")
