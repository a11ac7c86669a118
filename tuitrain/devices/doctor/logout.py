"""The check of whether a run in the background outlives a logout."""

from __future__ import annotations

from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject

LOGOUT = Subject("logout", "Runs after a logout", "KillUserProcesses and KillExcludeUsers in systemd's logind.conf, and lingering")


def logout(facts: Facts) -> Check:
    """systemd-logind may end everything that a user started; nothing else does, because a detached run has a session of its own."""
    found = facts.logout
    if not found.systemd or not found.kills or found.excluded:
        return LOGOUT.ok(
            "runs in the background go on: the hang-up of the terminal (SIGHUP) does not reach them, and logind leaves them alone"
        )
    first = "" if found.lingers else "Once: `loginctl enable-linger`. "
    return LOGOUT.warning(
        "KillUserProcesses=yes in logind.conf: a logout kills runs in the background",
        f"{first}A run that is to outlive a logout starts with: `systemd-run --user --scope tuitrain run seed-cnn --detach`",
    )
