"""Disks that take no more, files that may not grow, folders that may not be written: while a run trains, and for good."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from host import STEPS, Host, small_config
from tally import Tally
from truth import check_finished, check_so_far, whole

BLOCK = 4096


def no_space(scratch: Path, times: int) -> Tally:
    """A disk of a few megabytes that is filled up at a random step, but for some blocks; every second time it is never freed."""
    tally = Tally("no space left on the disk (ENOSPC)")
    if os.getuid():
        tally.left_out = "only root can make a small disk"
        return tally
    draw, told = random.Random(3), 0
    whole()
    for number in range(times):
        with tally.trial(), _small_disk(scratch.with_name(f"disk-{number}")) as disk:
            ballast = disk / "ballast"
            host = Host(disk / "runs", small_config())
            told += _starve(
                host,
                draw,
                lambda ballast=ballast: _fill(ballast, draw.randrange(40) * BLOCK),  # type: ignore[misc]
                ballast.unlink,
                for_good=number % 2 == 1,
            )
    tally.facts = [f"{told} runs said so"]
    return tally


def too_large(scratch: Path, times: int) -> Tally:
    """From a random step on no file may grow over a random size."""
    tally = Tally("files may not grow (EFBIG)")
    draw, told = random.Random(4), 0
    whole()
    for number in range(times):
        with tally.trial():
            host = Host(scratch, small_config())
            size = draw.choice([0, draw.randrange(2000), draw.randrange(100_000)])

            def limit(pid: int = host.pid, size: int = size) -> None:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

            def lift(pid: int = host.pid) -> None:
                with suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

            told += _starve(host, draw, limit, lift, for_good=number % 2 == 1)
    tally.facts = [f"{told} runs said so"]
    return tally


def read_only(scratch: Path, times: int) -> Tally:
    """Folders that the run's user may not write to, from the start or from a random step on."""
    tally = Tally("a folder that may not be written (EACCES)")
    draw, told = random.Random(5), 0
    whole()
    for number in range(times):
        with tally.trial():
            folder = scratch / str(number)
            folder.mkdir(parents=True)
            if number % 4 == 3:
                folder.chmod(0o555)
                host = Host(folder / "runs", small_config(), before=_obey_permissions)
                assert host.wait() == "refused", host.complaint()
                sentence = host.words("ended")[0][2]
                assert "cannot be written: Permission denied" in sentence, sentence
                assert not list(folder.iterdir())
                continue
            host = Host(folder, small_config(), before=_obey_permissions)
            told += _starve(
                host,
                draw,
                lambda host=host: _set_modes(host.folder, 0o555),  # type: ignore[misc]
                lambda host=host: _set_modes(host.folder, 0o755),  # type: ignore[misc]
                for_good=number % 4 == 1,
            )
    tally.facts = [f"{told} runs said so"]
    return tally


def _starve(host: Host, draw: random.Random, starve: Callable[[], object], feed: Callable[[], object], *, for_good: bool) -> bool:
    """Let a run live through want: it trains to its end, and nothing is torn. Fed in time it has lost nothing; else it goes on later,
    where it was ever saved. Whether it said so.
    """
    try:
        host.wait_for("step", draw.randrange(1, 120))
        starve()
        host.wait_for("step", STEPS if for_good else draw.randrange(180, 260))
        folder = host.folder
        if for_good:
            assert host.wait() == "finished", host.complaint()
            feed()
            kept = check_so_far(folder)
            again = Host(folder.parent, small_config(max_steps=STEPS, epochs=10), resume=folder)
            ended = again.wait()
            if not list((folder / "checkpoints").glob("step-*")):
                assert ended == "failed", ended
                assert "it was never saved" in again.words("ended")[0][2]
                return True
            assert ended in ("finished", "refused"), again.complaint()
            if any("events could not be written to the run's metrics" in text for text in host.words("notices")[0][1]):
                # There was no room for points to the end, but for a checkpoint: it is said, and nothing makes those before it again.
                lost = range(kept + 1, (again.resumed_from or kept) + 1)
                check_so_far(folder, lost=lost)
                assert bool(lost) == any("never written" in text for text in again.words("notices")[0][1]), lost
                return True
        else:
            feed()
            assert host.wait() == "finished", host.complaint()
        check_finished(folder)
        return any("cannot be written" in text or "could not be" in text for text in host.words("notices")[0][1])
    finally:
        host.kill()


def _fill(ballast: Path, room: int) -> None:
    """Leave about `room` bytes of a disk."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(BLOCK))
        except OSError:
            file.truncate(max(file.tell() - room, 0))


@contextmanager
def _small_disk(place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3M", "torture", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _obey_permissions() -> None:
    """Let permissions bind this process, also when it is root's: it gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
    if os.getuid():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for place in (0, 1):  # effective and permitted
        sets[place] &= ~0b110
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _set_modes(folder: Path, mode: int) -> None:
    for path in (folder, folder / "checkpoints", folder / "tensorboard"):
        path.chmod(mode)
