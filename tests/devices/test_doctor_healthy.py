"""A machine that is well gets no problem and no warning, whatever kind of machine it is."""

from __future__ import annotations

import errno
from pathlib import Path

import doctor_machines as machines
from doctor_machines import bare_metal, card, cards_on_bus, device_files, loaded_driver, named, numbers, pci, put, report_on, wrong

from tuitrain.devices.doctor.diagnosis import diagnose


def test_two_gpus_on_bare_metal(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2))
    assert wrong(report) == {}
    assert numbers(report) == [2, 2, 2, 2, 2, 2]
    assert [count.note for count in report.counts] == ["and ASPEED (server board): not for CUDA", "", "", "", "not set", ""]
    assert report.conclusion == "All is well: torch counts both GPUs of this machine and can use them."


def test_eight_gpus_with_switches_and_a_fabric_manager(tmp_path: Path) -> None:
    bare_metal(tmp_path, 8)
    for number in range(4):
        pci(tmp_path, f"0000:a{number}:00.0", machines.NVIDIA, 0x068000, "nvidia-nvswitch")
    put(tmp_path, "proc/900/comm", "nv-fabricmanage\n")
    report = report_on(tmp_path, machines.snapshot(*(card(number) for number in range(8))), machines.torch_with(8))
    assert wrong(report) == {}
    assert "4 NVSwitches, and the fabric manager runs" in named(report, "fabric-manager").found
    assert "all 8 GPUs" in report.conclusion


def test_a_container_that_was_given_one_of_two(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    put(tmp_path, ".dockerenv")
    (tmp_path / "dev/nvidia1").unlink()
    environ = {"NVIDIA_VISIBLE_DEVICES": "0"}
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1), environ)
    assert wrong(report) == {}
    assert numbers(report) == [2, 2, 1, 1, 1, 1]
    assert "as meant" in report.conclusion
    assert "given 1 GPU of 2" in report.conclusion


def test_a_laptop_with_an_integrated_gpu(tmp_path: Path) -> None:
    bare_metal(tmp_path, 1)
    pci(tmp_path, "0000:00:02.0", machines.INTEL, driver="i915")
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1))
    assert wrong(report) == {}
    assert "Intel (integrated)" in report.counts[0].note
    assert "task manager" in named(report, "adapters").found
    assert "the one GPU" in report.conclusion


def test_a_machine_without_a_gpu_and_a_torch_for_the_cpu(tmp_path: Path) -> None:
    pci(tmp_path, "0000:00:02.0", machines.INTEL, driver="i915")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_for_cpu())
    assert wrong(report) == {}
    assert numbers(report) == [0, 0, 0, 0, 0, 0]
    assert report.conclusion == "This machine has no NVIDIA GPU, and that is fine: training runs on the CPU."


def test_a_machine_without_a_gpu_and_a_torch_for_cuda(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    torch = machines.torch_refused("Found no NVIDIA driver on your system.")
    assert wrong(report_on(tmp_path, machines.no_driver(), torch)) == {}


def test_a_container_without_a_pci_bus(tmp_path: Path) -> None:
    put(tmp_path, ".dockerenv")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_for_cpu())
    assert wrong(report) == {}
    assert report.counts[0].count is None


def test_a_container_for_the_cpu_on_a_machine_with_gpus(tmp_path: Path) -> None:
    cards_on_bus(tmp_path, 2)
    loaded_driver(tmp_path, 2)
    put(tmp_path, "run/.containerenv")
    report = report_on(tmp_path, machines.no_driver(), machines.torch_for_cpu())
    assert wrong(report) == {}
    assert "none of the machine's 2 GPUs was given to it" in report.conclusion


def test_a_slurm_job_with_its_share(tmp_path: Path) -> None:
    facts = machines.facts_of(bare_metal(tmp_path), machines.snapshot(card(0)), machines.torch_with(1), {"SLURM_JOB_ID": "7"})
    report = diagnose(machines.with_closed_nodes(facts, errno.EPERM, 1))
    assert wrong(report) == {}
    assert "Slurm gave this job 1 GPU of 2" in report.conclusion


def test_wsl(tmp_path: Path) -> None:
    put(tmp_path, "dev/dxg")
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1")
    put(tmp_path, "proc/version", "Linux version 6.6.87-microsoft-standard-WSL2")
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1))
    assert wrong(report) == {}
    assert numbers(report) == [None, None, None, 1, 1, 1]


def test_wsl_on_a_laptop_with_an_integrated_gpu_only(tmp_path: Path) -> None:
    put(tmp_path, "dev/dxg")
    assert wrong(report_on(tmp_path, machines.no_driver(), machines.torch_for_cpu())) == {}


def test_one_card_chosen_by_the_variable(tmp_path: Path) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "1"}
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(1), environ)
    assert wrong(report) == {}
    assert numbers(report)[-2:] == [1, 1]
    assert 'CUDA_VISIBLE_DEVICES="1" leaves 1 of 2 GPUs' in report.conclusion


def test_one_mig_instance_given_to_a_container(tmp_path: Path) -> None:
    bare_metal(tmp_path, 1)
    put(tmp_path, ".dockerenv")
    parent = card(0, mig=True, cuda_index=None)
    instance = card(0, uuid="MIG-1", parent="GPU-00", instance=0, cuda_index=0, name="MIG 1g.10gb")
    report = report_on(tmp_path, machines.snapshot(parent, instance), machines.torch_with(1))
    assert wrong(report) == {}


def test_a_desktop_that_gave_a_card_to_a_virtual_machine(tmp_path: Path) -> None:
    bare_metal(tmp_path, 1)
    pci(tmp_path, "0000:09:00.0", machines.NVIDIA, driver="vfio-pci")
    report = report_on(tmp_path, machines.snapshot(card(0)), machines.torch_with(1))
    assert wrong(report) == {}
    assert "virtual machines" in report.conclusion


def test_device_files_that_come_with_the_first_cuda_program(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    (tmp_path / "dev/nvidia-uvm").unlink()
    device_files(tmp_path, 0, 1, uvm=False)
    assert wrong(report_on(tmp_path, machines.two_cards(), machines.torch_with(2))) == {}
