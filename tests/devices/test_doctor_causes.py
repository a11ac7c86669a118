"""Each cause on a machine that has it: it is named, it has a mend whose commands can be pasted, and the conclusion tells of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import doctor_machines as machines
import msgspec
import pytest
from doctor_machines import (
    bare_metal,
    card,
    cards_on_bus,
    device_files,
    diagnose,
    facts_of,
    loaded_driver,
    named,
    numbers,
    pci,
    put,
    report_on,
    wrong,
)

from tuitrain.devices.doctor.facts import StorageFacts, TorchDevice, TorchFacts
from tuitrain.devices.doctor.model import Report
from tuitrain.devices.nvml import sentence
from tuitrain.devices.samples import UNNAMED, ProcessSample
from tuitrain.devices.visible import with_cuda_indexes

NO_GPUS = "No CUDA GPUs are available"
UNEXPECTED = "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before? Error {}: {}"


def assert_names(report: Report, check: str, *words: str, mend: str, concluded: bool = True) -> None:
    """The check found a problem, says `words`, mends it with `mend`, and is what the conclusion is about."""
    found = named(report, check)
    assert found.verdict == "problem"
    for word in words:
        assert word in found.found
    assert mend in str(found.mend)
    if concluded:
        assert found.found[1:60] in report.conclusion


# -- the driver -----------------------------------------------------------------------------------------------------------


def test_nouveau_has_the_card(tmp_path: Path) -> None:
    cards_on_bus(tmp_path, 2, "nouveau")
    put(tmp_path, "etc/os-release", "ID=ubuntu\n")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_refused("Found no NVIDIA driver on your system."))
    assert_names(report, "driver", "nouveau", mend="ubuntu-drivers install")
    assert report.conclusion.startswith("2 GPUs are on the PCI bus, but none is known to the driver:")


@pytest.mark.parametrize(
    ("distribution", "mend"), [("ID=fedora", "akmod-nvidia"), ('ID="rocky"', "nvidia.com/drivers"), ("", "nvidia.com/drivers")]
)
def test_no_driver_installed(tmp_path: Path, distribution: str, mend: str) -> None:
    cards_on_bus(tmp_path, 1, None)
    put(tmp_path, "etc/os-release", distribution)
    report = report_on(tmp_path, machines.no_driver(), machines.torch_refused("Found no NVIDIA driver on your system."))
    assert_names(report, "driver", "no NVIDIA driver is installed", mend=mend)


def test_the_module_is_not_loaded(tmp_path: Path) -> None:
    cards_on_bus(tmp_path, 1, None)
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.14")
    report = report_on(tmp_path, machines.no_driver(sentence(9)), machines.torch_refused("Found no NVIDIA driver on your system."))
    assert_names(report, "driver", "550.54.14", "not loaded", mend="sudo modprobe nvidia")


def test_driver_and_library_of_two_versions(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    for library in (tmp_path / "usr/lib/x86_64-linux-gnu").iterdir():
        library.rename(library.with_name(library.name.replace(machines.DRIVER, "580.105.08")))
    report = report_on(tmp_path, machines.no_driver(sentence(18)), machines.torch_refused(UNEXPECTED.format(804, "x")))
    assert_names(report, "driver", "mismatch", "580.95.05", "580.105.08", mend="Reboot")
    assert "NVML, but" not in report.conclusion
    assert "none is seen by NVML" in report.conclusion


def test_the_files_alone_show_a_mismatch(tmp_path: Path) -> None:
    loaded_driver(tmp_path, 1, "550.54.14")
    for library in (tmp_path / "usr/lib/x86_64-linux-gnu").iterdir():
        library.rename(library.with_name(library.name.replace("550.54.14", "580.95.05")))
    cards_on_bus(tmp_path, 1)
    device_files(tmp_path, 0)
    report = report_on(tmp_path, machines.no_driver("the NVIDIA driver does not answer"), machines.torch_refused("no"))
    assert_names(report, "driver", "the kernel has 550.54.14, the libraries are 580.95.05", mend="Reboot")


def test_nvml_hangs(tmp_path: Path) -> None:
    seen = machines.snapshot(error="NVML not responding for 6 s", stalled_seconds=6.0, taken=None, driver=None, cuda=None)
    report = report_on(bare_metal(tmp_path), seen, TorchFacts(hung_at="count the GPUs", hung_seconds=5.0))
    assert_names(report, "driver", "6 s", "hangs", mend="xid")
    assert named(report, "torch").verdict == "problem"
    assert report.counts[3].count is None


def test_nvml_has_not_answered_yet(tmp_path: Path) -> None:
    seen = machines.snapshot(taken=None, driver=None, cuda=None)
    assert_names(report_on(bare_metal(tmp_path), seen, TorchFacts(asked=False)), "driver", "has not answered", mend="reboot")


def test_the_python_binding_is_missing(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.no_driver(sentence(-1)), machines.torch_with(2))
    assert named(report, "driver").verdict == "warning"
    assert "pip install nvidia-ml-py" in str(named(report, "driver").mend)


def test_a_card_that_the_driver_does_not_take(tmp_path: Path) -> None:
    bare_metal(tmp_path, 1)
    pci(tmp_path, "0000:81:00.0", machines.NVIDIA)
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1))
    assert_names(report, "unbound-card", "0000:81:00.0", mend="nvrm")
    assert report.conclusion.startswith("2 GPUs are on the PCI bus, but only 1 is known to the driver:")


# -- containers and permissions -------------------------------------------------------------------------------------------


def test_a_container_that_asked_and_got_nothing(tmp_path: Path) -> None:
    cards_on_bus(tmp_path, 2)
    loaded_driver(tmp_path, 2)
    put(tmp_path, ".dockerenv")
    torch = machines.torch_refused("Found no NVIDIA driver on your system.")
    report = report_on(tmp_path, machines.no_driver(), torch, {"NVIDIA_VISIBLE_DEVICES": "all"})
    assert_names(report, "container", "none of the machine's 2 GPUs was given", mend="docker run --gpus all")
    assert named(report, "driver").verdict == "ok"


def test_a_container_with_a_torch_for_cuda_and_no_gpu(tmp_path: Path) -> None:
    cards_on_bus(tmp_path, 1)
    loaded_driver(tmp_path, 1)
    report = report_on(tmp_path, machines.no_driver(), machines.torch_refused("no driver"), {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert named(report, "container").verdict == "warning"
    assert "nvidia.com/gpu" in str(named(report, "container").mend)
    assert "none of the machine's 1 GPU was given" in report.conclusion


def test_a_container_without_the_drivers_libraries(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    put(tmp_path, ".dockerenv")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_refused("Found no NVIDIA driver on your system."))
    assert_names(report, "driver", "libnvidia-ml.so.1", mend="NVIDIA_DRIVER_CAPABILITIES=compute,utility")


def test_a_container_that_lost_its_gpus(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    put(tmp_path, ".dockerenv")
    facts = facts_of(tmp_path, machines.no_driver(sentence(999)), machines.torch_refused(NO_GPUS))
    report = diagnose(facts)
    assert_names(report, "driver", "Unknown Error", mend="Start the container again")
    closed = diagnose(machines.with_closed_nodes(facts, errno.EPERM, 0, 1))
    assert_names(closed, "device-nodes", "cgroup", "/dev/nvidia0, /dev/nvidia1", mend="Start the container again")


def test_a_cgroup_denies_a_card_on_bare_metal(tmp_path: Path) -> None:
    facts = facts_of(bare_metal(tmp_path), machines.snapshot(card(0)), machines.torch_with(1))
    report = diagnose(machines.with_closed_nodes(facts, errno.EPERM, 1))
    assert_names(report, "device-nodes", "a cgroup denies /dev/nvidia1", mend="DeviceAllow")
    assert report.conclusion.startswith("2 GPUs are known to the driver, but only 1 may be opened:")
    assert report.counts[2].note == "1 more cannot be opened"


def test_a_batch_job_that_asked_for_no_gpu(tmp_path: Path) -> None:
    facts = facts_of(bare_metal(tmp_path), machines.no_driver(sentence(17)), machines.torch_refused(NO_GPUS), {"SLURM_JOB_ID": "7"})
    report = diagnose(machines.with_closed_nodes(facts, errno.EPERM, 0, 1))
    assert_names(report, "device-nodes", "cgroup", mend="srun --gres=gpu:1")


@pytest.mark.parametrize(
    ("error", "words", "mend"),
    [
        (errno.EACCES, "this user may not open", "usermod -aG video"),
        (errno.EIO, "could not wake the card", "xid"),
        (errno.ETIMEDOUT, "hangs", "reboot"),
    ],
)
def test_device_files_that_cannot_be_opened(tmp_path: Path, error: int, words: str, mend: str) -> None:
    facts = facts_of(bare_metal(tmp_path), machines.no_driver(sentence(4)), machines.torch_refused(NO_GPUS))
    assert_names(diagnose(machines.with_closed_nodes(facts, error, 0, 1)), "device-nodes", words, mend=mend)


def test_a_device_file_is_missing(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    (tmp_path / "dev/nvidia1").unlink()
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1))
    assert_names(report, "device-nodes", "/dev/nvidia1", mend="sudo nvidia-modprobe -u -c=1")


# -- the cards ------------------------------------------------------------------------------------------------------------


def test_a_lost_card(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), card(1, status="lost", reason="fell off the bus", cuda_index=1))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(1))
    assert_names(report, "cards", "GPU 1", "lost", mend="power off")
    assert "but only 1 is counted by torch" in report.conclusion


def test_a_card_that_needs_a_reset(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), card(1, status="reset required", reason="it says so"))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_refused("no"))
    assert_names(report, "cards", "reset required", mend="nvidia-smi --gpu-reset -i 1")


def test_a_card_that_does_not_answer(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), card(1, status="not responding", reason="no answer in time"))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(1))
    assert_names(report, "cards", "GPU 1 (NVIDIA H100): not responding", mend="xid")


def test_every_card_that_is_unwell_is_named_with_its_mend(tmp_path: Path) -> None:
    sick = ("reset required", "lost", "unknown error", "lost", "no permission", "not responding")
    seen = machines.snapshot(card(0), *(card(number, status=status) for number, status in enumerate(sick, 1)))
    report = report_on(bare_metal(tmp_path, 7), seen, machines.torch_with(1))
    assert_names(report, "cards", "GPU 2 (NVIDIA H100), GPU 4 (NVIDIA H100): lost", mend="GPU 2, GPU 4: Reboot")
    found, mend = named(report, "cards").found, str(named(report, "cards").mend)
    assert all(status in found for status in sick)
    assert "GPU 1: Stop all that uses it or looks at it, tuitrain too, then: `sudo nvidia-smi --gpu-reset -i 1`" in mend
    assert "GPU 5: Ask the administrator" in mend


def test_a_silent_driver_is_no_trouble_of_each_card(tmp_path: Path) -> None:
    reason = sentence(9)
    silent = [card(number, status="not responding", reason=reason, cuda_index=None) for number in range(2)]
    report = report_on(bare_metal(tmp_path), machines.snapshot(*silent, error=reason, driver=None), machines.torch_refused("no"))
    assert named(report, "cards").verdict == "ok"
    assert named(report, "driver").verdict == "problem"


def test_a_card_that_does_not_compute(tmp_path: Path) -> None:
    works, fails = TorchDevice(capability=(9, 0), error=""), TorchDevice(capability=(9, 0), error="CUDA error: unspecified launch failure")
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2, devices=(works, fails)))
    assert_names(report, "cards", "cuda:1", "unspecified launch failure", mend="xid")


def test_a_full_card_is_no_broken_card(tmp_path: Path) -> None:
    full = TorchDevice(capability=(9, 0), error="CUDA out of memory. Tried to allocate 2.00 MiB")
    report = report_on(bare_metal(tmp_path, 1), machines.snapshot(card(0)), machines.torch_with(1, devices=(full,)))
    assert wrong(report) == {"cards": "warning"}


def test_compute_mode_prohibited(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0, compute_mode="default"), card(1, compute_mode="prohibited"))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(2))
    assert_names(report, "compute-mode", "GPU 1", "prohibited", mend="nvidia-smi -i 1 -c DEFAULT")
    assert report.conclusion.startswith("Torch counts 2 GPUs, but GPU 1")


def test_a_card_that_somebody_has_for_himself_is_known_by_what_cuda_says(tmp_path: Path) -> None:
    said = TorchDevice(capability=(9, 0), error="CUDA error: CUDA-capable device(s) is/are busy or unavailable")
    bare_metal(tmp_path, 1)
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1, devices=(said,)))
    found = named(report, "compute-mode")
    assert (found.verdict, found.command) == ("warning", "tuitrain gpus")
    assert "cuda:0 is busy or unavailable" in found.found
    free = report_on(tmp_path, machines.snapshot(card(0, compute_mode="exclusive process")), machines.torch_with(1))
    assert (named(free, "compute-mode").verdict, wrong(free)) == ("ok", {})


def test_compute_mode_exclusive_and_held(tmp_path: Path) -> None:
    holder = ProcessSample(pid=4711, name="python", user="bob", memory=1)
    seen = machines.snapshot(card(0, compute_mode="exclusive process", processes=(holder,)))
    found = named(report_on(bare_metal(tmp_path, 1), seen, machines.torch_with(1)), "compute-mode")
    assert found.verdict == "warning"
    assert "python (PID 4711) has it" in found.found
    # torch is asked in a process of its own, which is kept from the card by this one too.
    ours = machines.snapshot(card(0, compute_mode="exclusive process", processes=(msgspec.structs.replace(holder, pid=os.getpid()),)))
    assert "python (PID" in named(report_on(tmp_path, ours, machines.torch_with(1)), "compute-mode").found
    mps = ProcessSample(pid=4712, name="nvidia-cuda-mps-server", user="root", memory=1)
    shared = machines.snapshot(card(0, compute_mode="exclusive process", processes=(mps,)))
    served = named(report_on(tmp_path, shared, machines.torch_with(1)), "compute-mode")
    assert served.verdict == "ok"
    assert served.found.endswith("exclusive, one process at a time, which is that of MPS: through it several may compute")
    free = machines.snapshot(card(0, compute_mode="exclusive process", processes=()))
    assert wrong(report_on(tmp_path, free, machines.torch_with(1))) == {}


def test_mig_without_an_instance(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0, mig=True, cuda_index=None))
    report = report_on(bare_metal(tmp_path, 1), seen, machines.torch_refused(NO_GPUS))
    assert_names(report, "mig", "no instance", mend="nvidia-smi mig -i 0 -cgi")


def test_mig_gives_a_process_one_instance(tmp_path: Path) -> None:
    instances = [card(0, uuid=f"MIG-{n}", parent="GPU-00", instance=n, cuda_index=0 if n == 0 else None) for n in range(2)]
    seen = machines.snapshot(card(0, mig=True, cuda_index=None), *instances, card(1, cuda_index=None))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(1))
    assert numbers(report)[-3:] == [2, 1, 1]
    assert named(report, "mig").verdict == "warning"
    assert named(report, "mig").command == "export CUDA_VISIBLE_DEVICES=MIG-1"
    assert "one process sees one instance only" in report.conclusion


def test_mig_beside_a_card_of_another_kind(tmp_path: Path) -> None:
    """How CUDA numbers cards that differ is not known without CUDA_DEVICE_ORDER, and which instance it offers is."""
    instances = [card(0, uuid=f"MIG-{n}", parent="GPU-00", instance=n) for n in range(2)]
    rows = with_cuda_indexes([card(0, mig=True), *instances, card(1, name="NVIDIA T4")], {})
    assert {row.cuda_index for row in rows} == {None}
    report = report_on(bare_metal(tmp_path), machines.snapshot(*rows), machines.torch_with(1))
    assert numbers(report)[-3:] == [2, 1, 1]
    assert named(report, "mig").command == "export CUDA_VISIBLE_DEVICES=MIG-1"
    assert named(report, "device-order").verdict == "warning"


def test_the_mps_daemon_is_not_there(tmp_path: Path) -> None:
    said = UNEXPECTED.format(805, "MPS client failed to connect to the MPS control daemon or the MPS server")
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_refused(said), {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/mps"})
    assert_names(report, "mps", "MPS daemon", mend="unset CUDA_MPS_PIPE_DIRECTORY")


def test_the_mps_daemon_hides_every_card(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    put(tmp_path, "proc/77/comm", "nvidia-cuda-mps\n")
    report = report_on(tmp_path, machines.two_cards(), machines.torch_refused(NO_GPUS))
    assert_names(report, "mps", "renumbers", mend="nvidia-cuda-mps-control")
    healthy = report_on(tmp_path, machines.two_cards(), machines.torch_with(2))
    assert wrong(healthy) == {}


# -- the variables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "left", "words"),
    [
        ("0,9,1", 1, 'CUDA stops reading at "9"'),
        ("0;1", 1, None),
        ("0,0", 0, "names a card twice"),
        ("GPU-00,GPU-zz", 1, 'CUDA stops reading at "GPU-zz"'),
        ("all", 0, 'CUDA stops reading at "all"'),
    ],
)
def test_slips_in_the_variable(tmp_path: Path, value: str, left: int, words: str | None) -> None:
    torch = machines.torch_with(left) if left else machines.torch_refused(NO_GPUS)
    report = report_on(bare_metal(tmp_path), machines.two_cards(), torch, {"CUDA_VISIBLE_DEVICES": value})
    assert report.counts[4].count == left
    if words is None:
        # "0;1" is a number to CUDA as it is to torch: nothing tells it from "0" on purpose.
        assert "leaves 1 of 2" in report.conclusion
        return
    assert_names(report, "visible-devices", words, mend="export CUDA_VISIBLE_DEVICES=0,1")
    assert "2 GPUs are seen by NVML, but" in report.conclusion


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles"])
def test_a_variable_that_hides_everything(tmp_path: Path, value: str) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_refused(NO_GPUS), {"CUDA_VISIBLE_DEVICES": value})
    assert wrong(report) == {"visible-devices": "warning"}
    assert named(report, "visible-devices").command == "unset CUDA_VISIBLE_DEVICES"
    assert "none is left by CUDA_VISIBLE_DEVICES" in report.conclusion


def test_mixed_cards_without_an_order(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0, cuda_index=None), card(1, name="NVIDIA RTX 6000", cuda_index=None))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(2))
    assert wrong(report) == {"device-order": "warning"}
    assert named(report, "device-order").command == "export CUDA_DEVICE_ORDER=PCI_BUS_ID"
    assert wrong(report_on(tmp_path, seen, machines.torch_with(2), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == {}


# -- torch ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speaks", "index"), [("13.2", "cu130"), ("12.9", "cu128"), ("12.4", "cu126"), ("11.4", "cu118")])
def test_torch_for_the_cpu_only(tmp_path: Path, speaks: str, index: str) -> None:
    report = report_on(bare_metal(tmp_path), machines.snapshot(card(0), card(1), cuda=speaks), machines.torch_for_cpu())
    assert_names(report, "torch-build", "built for the CPU only", mend=f"--index-url https://download.pytorch.org/whl/{index}")
    assert report.conclusion.startswith("2 GPUs are left for CUDA, but none is counted by torch:")


def test_the_index_comes_from_the_drivers_version_where_nvml_does_not_say(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.snapshot(card(0), driver="550.54.14", cuda=None), machines.torch_for_cpu())
    assert "whl/cu126" in str(named(report, "torch-build").mend)


def test_a_torch_for_amd(tmp_path: Path) -> None:
    torch = TorchFacts(version="2.13.0+rocm7.2", hip="7.2", count=0, started=False, start_error="no HIP")
    assert_names(report_on(bare_metal(tmp_path), machines.two_cards(), torch), "torch-build", "ROCm", mend="whl/cu130")


def test_a_driver_too_old_for_the_build(tmp_path: Path) -> None:
    said = "The NVIDIA driver on your system is too old (found version 12040). Please update your GPU driver"
    seen = machines.snapshot(card(0), card(1), driver="550.54.14", cuda="12.4")
    report = report_on(bare_metal(tmp_path), seen, machines.torch_refused(said, count=2))
    assert_names(report, "driver-age", "550.54.14 speaks CUDA 12.4", "13.0", mend="whl/cu126")
    assert "580 or newer" in str(named(report, "driver-age").mend)


def test_a_driver_that_no_current_torch_runs_on(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), driver="470.82.01", cuda="11.4")
    report = report_on(bare_metal(tmp_path, 1), seen, machines.torch_refused("too old"))
    assert_names(report, "driver-age", "470.82.01", mend="Update the NVIDIA driver to 580 or newer")


def test_torch_is_not_installed(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), TorchFacts(installed=False))
    assert_names(report, "torch", "not installed", mend="pip install torch --index-url")
    assert report.counts[5].count is None


def test_torch_is_broken(tmp_path: Path) -> None:
    torch = TorchFacts(failed="ImportError: libcudnn.so.9: cannot open shared object file")
    report = report_on(bare_metal(tmp_path), machines.two_cards(), torch, {"LD_LIBRARY_PATH": "/opt/old"})
    assert_names(report, "torch", "libcudnn.so.9", mend="--force-reinstall")
    assert "LD_LIBRARY_PATH" in str(named(report, "torch").mend)


def test_torch_does_not_end_its_import(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), TorchFacts(hung_at="import torch", hung_seconds=8.5))
    assert named(report, "torch").verdict == "warning"
    assert "how many torch counts is not known: import torch had not ended" in report.conclusion


def test_nccl_cannot_be_loaded(tmp_path: Path) -> None:
    torch = TorchFacts(failed="ImportError: libnccl.so.2: cannot open shared object file: No such file or directory")
    report = report_on(bare_metal(tmp_path), machines.two_cards(), torch)
    assert_names(report, "nccl", "libnccl.so.2", mend="nvidia-nccl", concluded=False)


def test_a_card_newer_than_torchs_kernels(tmp_path: Path) -> None:
    device = TorchDevice(name="NVIDIA B200", capability=(10, 0), error="CUDA error: no kernel image is available for execution")
    torch = machines.torch_with(1, devices=(device,), architectures=("sm_80", "sm_90", "sm_90a"))
    report = report_on(bare_metal(tmp_path, 1), machines.snapshot(card(0)), torch)
    assert_names(report, "architecture", "NVIDIA B200", "sm_100", mend="whl/cu130")


def test_a_card_older_than_torchs_kernels(tmp_path: Path) -> None:
    device = TorchDevice(name="GTX 1080", capability=(6, 1))
    torch = machines.torch_with(1, devices=(device,), architectures=("sm_75", "sm_80", "compute_120"))
    report = report_on(bare_metal(tmp_path, 1), machines.snapshot(card(0)), torch)
    assert_names(report, "architecture", "GTX 1080", "sm_61", mend="whl/cu126")


@pytest.mark.parametrize("built", [("sm_80",), ("compute_70",), ("sm_86",), ("sm_86a",), ("gfx942",), ("sm_90", "sm_80a", "sm_70")])
def test_kernels_of_the_same_major_architecture_and_older_ptx_run(tmp_path: Path, built: tuple[str, ...]) -> None:
    torch = machines.torch_with(1, devices=(TorchDevice(capability=(8, 6)),), architectures=built)
    report = report_on(bare_metal(tmp_path, 1), machines.snapshot(card(0)), torch)
    # Of another maker's targets nobody knows.
    assert ("architecture" in wrong(report)) == (len(built) > 1)


# -- CUDA does not start --------------------------------------------------------------------------------------------------


def test_the_fabric_manager_does_not_run(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    pci(tmp_path, "0000:a0:00.0", machines.NVIDIA, 0x068000)
    said = UNEXPECTED.format(802, "system not yet initialized")
    report = report_on(tmp_path, machines.two_cards(), machines.torch_refused(said, count=2))
    assert_names(report, "fabric-manager", "802", "does not run", mend="systemctl enable --now nvidia-fabricmanager")
    assert report.counts[5].note == "but CUDA does not start"
    put(tmp_path, "proc/77/comm", "nv-fabricmanage\n")
    runs = report_on(tmp_path, machines.two_cards(), machines.torch_refused(said, count=2))
    assert_names(runs, "fabric-manager", "it runs, but", mend="systemctl restart nvidia-fabricmanager")


def test_the_compatibility_library_is_in_the_way(tmp_path: Path) -> None:
    said = UNEXPECTED.format(803, "system has unsupported display driver / cuda driver combination")
    environ = {"LD_LIBRARY_PATH": "/opt/x:/usr/local/cuda-13.0/compat"}
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_refused(said), environ)
    assert_names(report, "compat-library", "803", "/usr/local/cuda-13.0/compat", mend="export LD_LIBRARY_PATH=$(")
    healthy = report_on(tmp_path, machines.two_cards(), machines.torch_with(2), environ)
    assert wrong(healthy) == {}


def test_forward_compatibility_on_a_card_without_it(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    put(tmp_path, "etc/ld.so.conf.d/00-compat.conf", "/usr/local/cuda/compat\n")
    said = UNEXPECTED.format(804, "forward compatibility was attempted on non supported HW")
    report = report_on(tmp_path, machines.two_cards(), machines.torch_refused(said))
    assert_names(report, "compat-library", "804", "/usr/local/cuda/compat", mend="cuda-compat")


def test_the_unified_memory_module_is_missing(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    (tmp_path / "dev/nvidia-uvm").unlink()
    put(tmp_path, "proc/modules", "nvidia 1 3 - Live 0x0\n")
    report = report_on(tmp_path, machines.two_cards(), machines.torch_refused(UNEXPECTED.format(304, "OS call failed")))
    assert_names(report, "uvm", "nvidia_uvm is not loaded", mend="nvidia-modprobe -u")
    unasked = report_on(tmp_path, machines.two_cards(), machines.torch_with(2, started=None))
    assert "is made when the first CUDA program starts" in named(unasked, "uvm").found
    put(tmp_path, ".dockerenv")
    inside = report_on(tmp_path, machines.two_cards(), machines.torch_refused(UNEXPECTED.format(304, "OS call failed")))
    assert_names(inside, "uvm", "not in this container", mend="--device /dev/nvidia-uvm")


def test_the_unified_memory_file_may_not_be_opened(tmp_path: Path) -> None:
    facts = facts_of(bare_metal(tmp_path), machines.two_cards(), machines.torch_refused(UNEXPECTED.format(304, "OS call failed")))
    assert facts.system.uvm is not None
    closed = msgspec.structs.replace(facts.system.uvm, error=errno.EACCES)
    facts = msgspec.structs.replace(facts, system=msgspec.structs.replace(facts.system, uvm=closed))
    assert_names(diagnose(facts), "uvm", "cannot be opened", mend="--device /dev/nvidia-uvm")
    assert wrong(diagnose(msgspec.structs.replace(facts, torch=machines.torch_with(2)))) == {}


@pytest.mark.parametrize(
    ("error", "found"),
    [("NVML error 77", "is loaded, but NVML error 77"), (None, "is loaded, and lists no GPU")],
)
def test_a_driver_that_lists_nothing_is_quoted_where_nobody_knows_why(tmp_path: Path, error: str | None, found: str) -> None:
    bare_metal(tmp_path)
    report = report_on(tmp_path, machines.snapshot(error=error), machines.torch_with(0))
    assert found in named(report, "driver").found


def test_cuda_after_sleep(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_refused(UNEXPECTED.format(999, "unknown error")))
    assert_names(report, "cuda-start", "999", mend="rmmod nvidia_uvm")


def test_what_cuda_says_is_passed_on_where_nobody_knows_it(tmp_path: Path) -> None:
    refused = machines.torch_refused("CUDA error: something new", count=2)
    report = report_on(bare_metal(tmp_path), machines.two_cards(), refused)
    assert_names(report, "cuda-start", "something new", mend="xid")
    full = StorageFacts(folder="/runs", error="No space left on device")
    beside = report_on(tmp_path, machines.two_cards(), refused, storage=full)
    assert wrong(beside) == {"cuda-start": "problem", "runs-writable": "problem"}, "the one explains nothing of the other"


def test_a_loss_that_nothing_explains(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(1))
    assert_names(report, "count", "2 GPUs are left for CUDA, but only 1 is counted by torch", mend="forum")


@pytest.mark.parametrize("code", [4, 10, 15, 16, 17, 999])
def test_a_driver_that_nvml_reaches_is_never_called_no_gpu(tmp_path: Path, code: int) -> None:
    put(tmp_path, ".dockerenv")
    report = report_on(tmp_path, machines.no_driver(sentence(code)), machines.torch_for_cpu())
    assert named(report, "driver").verdict == "problem"
    assert "no NVIDIA GPU" not in report.conclusion
    assert "cannot be seen" in named(report, "container").found
    assert "fits this machine" not in named(report, "torch-build").found


def test_a_torch_for_the_cpu_is_named_before_a_lost_card(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), card(1, name=UNNAMED, status="lost", reason="gone"))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_for_cpu())
    assert wrong(report) == {"cards": "problem", "torch-build": "problem"}
    assert "built for the CPU only" in report.conclusion


def test_a_card_without_a_name_is_no_other_model(tmp_path: Path) -> None:
    seen = machines.snapshot(card(0), card(1, name=UNNAMED, status="no permission", reason="closed", cuda_index=None))
    report = report_on(bare_metal(tmp_path), seen, machines.torch_with(1))
    assert wrong(report) == {}
    assert "1 more may not be opened" in report.counts[4].note


# -- WSL ------------------------------------------------------------------------------------------------------------------


def test_wsl_without_nvidias_driver_on_windows(tmp_path: Path) -> None:
    put(tmp_path, "dev/dxg")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_refused("Found no NVIDIA driver on your system."))
    assert wrong(report) == {"wsl": "warning"}
    assert "/usr/lib/wsl/lib/libcuda.so.1 is missing" in named(report, "wsl").found
    assert "driver on Windows" in str(named(report, "wsl").mend)


def test_wsl_with_a_linux_driver_beside(tmp_path: Path) -> None:
    put(tmp_path, "dev/dxg")
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1")
    put(tmp_path, "usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14")
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_refused("no driver"))
    assert_names(report, "wsl", "550.54.14", mend="apt purge")
