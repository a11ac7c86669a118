"""What a shell takes as it is, and nothing but that, is a command."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess

from tuitrain.devices.doctor.model import Check

PROGRAMS = frozenset(
    """apptainer apt bash dkms dmesg dnf docker echo env export grep ldconfig loginctl modprobe mokutil mount nvidia-cuda-mps-control
    nvidia-modprobe nvidia-smi pacman paste podman python rmmod sed srun sudo systemctl systemd-run tail tmux tr tuitrain ubuntu-drivers
    unset usermod wsl.exe""".split()
)
PROSE = frozenset("a again and for from if it of on or see start the then to which with".split())
_BETWEEN = set("();&|")
_HIDDEN = re.compile(r"\b(sudo|export|unset|docker run|podman run|pip install|nvidia-smi -|systemctl|loginctl|systemd-run|python -)")


def assert_pasteable(check: Check) -> None:
    """Each command of the mend is one, and none hides in the words around them."""
    for piece in check.pieces:
        if not piece.is_command:
            assert not _HIDDEN.search(piece.text), f"a command among words: {piece.text}"
            continue
        words = shlex.shlex(piece.text, posix=True, punctuation_chars="();&|")
        words.whitespace_split = True
        tokens = list(words)
        assert set(_programs(tokens)) <= PROGRAMS, f"no program: {piece.text}"
        assert not PROSE & {token.lower().strip(".,") for token in tokens}, f"prose: {piece.text}"
        assert not re.search(r"…|[.,;:]$|\s$|^\s", piece.text), f"an end that is no command's: {piece.text}"
        assert _is_shell(piece.text), f"no shell reads it: {piece.text}"


def _programs(tokens: list[str]) -> list[str]:
    """The first word of each simple command, and what sudo starts."""
    found, first = [], True
    for token in tokens:
        if set(token) <= _BETWEEN:
            first = True
        elif first and not re.match(r"\w+=", token):
            found.append(token.rpartition("/")[2])
            first = token == "sudo"
    return found


@functools.lru_cache
def _is_shell(command: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", command], capture_output=True).returncode == 0
