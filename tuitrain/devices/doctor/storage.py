"""Checks of the disk of the runs folder."""

from __future__ import annotations

from tuitrain.devices.doctor.facts import Facts, StorageFacts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject

KIND = Subject("runs-disk", "File system of the runs", "/proc/self/mountinfo")
SPACE = Subject("runs-space", "Free space for runs", "the file system of the runs folder")
WRITING = Subject("runs-writable", "Writing runs", "a file written, synced and renamed in the runs folder")
NETWORK = ("nfs", "cifs", "smb", "smb3", "9p", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "orangefs", "pvfs2", "ncpfs")
NETWORK_FUSE = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.juicefs")
LITTLE, TOO_LITTLE = 2 << 30, 200 << 20
ELSEWHERE = "Put the runs on another disk: `export TUITRAIN_RUNS=/path/on/it`"
ROOM = f"See what there is: `tuitrain runs`; delete what is no longer needed: `tuitrain delete RUN`. {ELSEWHERE}"


def disk(facts: Facts) -> Check | None:
    """A network file system, on which SQLite's locks are not to be relied on."""
    kind = facts.storage.file_system if facts.storage else None
    if kind is None:
        return None
    if kind.rstrip("0123456789") in NETWORK or kind in NETWORK or kind in NETWORK_FUSE:
        return KIND.warning(f"{kind}, a network file system: slow, and the metrics of a run can be damaged by its locks", ELSEWHERE)
    if kind in ("tmpfs", "ramfs"):
        return KIND.ok(f"{kind}, which is memory: the runs are gone after a reboot")
    return KIND.ok(f"{kind}, a local one")


def space(facts: Facts) -> Check | None:
    """Checkpoints need room."""
    free = facts.storage.free if facts.storage else None
    if free is None:
        return None
    shown = f"{free / (1 << 30):.1f} GiB free"
    if free < TOO_LITTLE:
        return SPACE.problem(f"{shown}: too little for checkpoints", ROOM)
    if free < LITTLE:
        return SPACE.warning(f"{shown}: little for checkpoints", ROOM)
    return SPACE.ok(shown)


def writing(facts: Facts) -> Check | None:
    """Whether a checkpoint could be written."""
    storage = facts.storage
    if storage is None:
        return None
    if storage.hung:
        return WRITING.problem("the disk did not answer in time", f"Look whether its server is there. {ELSEWHERE}")
    if storage.error:
        return WRITING.problem(f"{_place(storage)} cannot be written: {storage.error}", ELSEWHERE)
    return WRITING.ok(f"{_place(storage)} can be written")


def _place(storage: StorageFacts) -> str:
    return storage.folder if storage.exists else f"the place for {storage.folder}"
