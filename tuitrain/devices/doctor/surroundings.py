"""Reads what a run needs beside the GPUs: the terminal, the disk of the runs folder, what a logout does, and the versions of things."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tuitrain.devices.doctor.bounded import within
from tuitrain.devices.doctor.facts import LogoutFacts, StorageFacts, TerminalFacts, Versions
from tuitrain.locales import named_locale
from tuitrain.text import clean

STORAGE_SECONDS = 2.5
LOGIND_FOLDERS = ("usr/lib/systemd", "run/systemd", "etc/systemd")
"""Later ones win."""


def read_terminal(environ: Mapping[str, str]) -> TerminalFacts:
    """The terminal of this process: the one that the app would draw on."""
    # It draws on standard output where standard error is kept in a file.
    stream = next((stream for stream in (sys.__stderr__, sys.__stdout__) if stream is not None and stream.isatty()), None)
    if stream is None:
        return TerminalFacts(is_one=False)
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, rows = 0, 0
    return TerminalFacts(
        is_one=True,
        columns=columns,
        rows=rows,
        term=clean(environ.get("TERM", "")),
        colorterm=clean(environ.get("COLORTERM", "")),
        encoding=getattr(sys.__stdout__, "encoding", None) or "utf-8",
        locale=clean(named_locale(environ)),
        tmux="TMUX" in environ,
        screen="STY" in environ,
    )


def read_storage(runs_dir: Path, root: Path) -> StorageFacts:
    """The disk of `runs_dir`, or of the nearest folder above it that exists. Nothing is left behind; a disk that hangs is given up."""
    return within(STORAGE_SECONDS, lambda: _read_storage(runs_dir, root), StorageFacts(folder=clean(str(runs_dir)), hung=True))


def _read_storage(runs_dir: Path, root: Path) -> StorageFacts:
    folder = next(place for place in (runs_dir, *runs_dir.parents) if os.path.exists(place))
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(folder).free
    return StorageFacts(
        folder=clean(str(runs_dir)),
        exists=folder == runs_dir,
        file_system=_file_system(folder, root),
        free=free,
        error=_try_writing(folder),
    )


def _file_system(folder: Path, root: Path) -> str | None:
    """The type of the file system in which `folder` lies: that of the longest mount point above it."""
    place = os.path.realpath(folder)
    best: tuple[int, str] | None = None
    try:
        lines = (root / "proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        fields, _, rest = line.partition(" - ")
        parts, kinds = fields.split(), rest.split()
        if len(parts) < 5 or not kinds:
            continue
        mount = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), parts[4])
        inside = place == mount or place.startswith(mount.rstrip("/") + "/")
        if inside and (best is None or len(mount) >= best[0]):
            best = (len(mount), clean(kinds[0]))
    return best[1] if best else None


def _try_writing(folder: Path) -> str | None:
    """Write, sync and rename a file as a checkpoint is written; what that said, `None` where it works."""
    first, second = (folder / f".tuitrain-doctor-{uuid.uuid4().hex}-{part}" for part in "ab")
    try:
        with open(first, "xb") as file:
            file.write(b"tuitrain doctor\n" * 256)
            file.flush()
            os.fsync(file.fileno())
        os.replace(first, second)
        return None if second.stat().st_size == 4096 else "a file came back with another size"
    except OSError as error:
        return clean(error.strerror or str(error))
    finally:
        for path in (first, second):
            with suppress(OSError):
                path.unlink()


def read_logout(root: Path, user: str) -> LogoutFacts:
    """What systemd-logind does to the processes of `user` at the end of a session."""
    settings: dict[str, str] = {}
    for folder in LOGIND_FOLDERS:
        base = root / folder
        for path in (base / "logind.conf", *sorted(base.glob("logind.conf.d/*.conf"))):
            settings.update(_settings(path))
    kills = settings.get("KillUserProcesses")
    spared = settings.get("KillExcludeUsers", "root").split()
    only = settings.get("KillOnlyUsers", "").split()
    return LogoutFacts(
        systemd=(root / "run/systemd/system").is_dir(),
        kills=None if kills is None else kills.lower() in ("yes", "true", "on", "1"),
        excluded=user in spared or bool(only and user not in only),
        lingers=bool(user) and (root / "var/lib/systemd/linger" / user).exists(),
    )


def _settings(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith(("#", ";")))
    return {name.strip(): value.strip() for name, value in pairs}


def user_name() -> str:
    """The user's name, "" where the system has none for the number."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):
        return ""


def read_versions(environ: Mapping[str, str]) -> Versions:
    """The versions of this program and of what it runs on, as a shell with `environ` starts it."""
    return Versions(
        tuitrain=_distribution_version("tuitrain") or "?",
        python=platform.python_version(),
        system=clean(f"{platform.system()} {platform.release()} {platform.machine()}"),
        deprecated_pynvml=_distribution_version("pynvml"),
        python_command=_python_command(environ),
    )


def _python_command(environ: Mapping[str, str]) -> str:
    """The shortest word that starts this Python from a shell: its whole path where another one comes first there."""
    here = sys.executable
    for word in ("python", "python3"):
        found = shutil.which(word, path=environ.get("PATH"))
        # A virtual environment's Python is a link to one that does not see its packages, so the folder counts too.
        if found and os.path.realpath(os.path.dirname(found)) == os.path.realpath(os.path.dirname(here)) and os.path.samefile(found, here):
            return word
    return shlex.quote(clean(here)) if here else "python3"


def _distribution_version(name: str) -> str | None:
    from importlib import metadata

    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    return clean(found) if found else None
