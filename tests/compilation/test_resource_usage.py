"""Registers and shared memory come from the machine code that Triton's own compiler makes of a launch."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from ioaware.capture.capture import DEFAULT_GPU, capture
from ioaware.compilation import resource_usage
from ioaware.compilation import triton_ir as compile_module
from ioaware.compilation.launches import CapturedLaunch
from ioaware.compilation.resource_usage import MachineCode, chip_use, registers_declared
from ioaware.compilation.triton_ir import compiled, find_gpu
from ioaware.derivation.derive import derive
from ioaware.errors import UsageError
from ioaware.fakegpu.cubin import resources
from ioaware.targets.target import load_target
from tests.support import SUPPORT
from tests.support.kernel_zoo.zoo_files import zoo

TARGETS = SUPPORT / "targets/uncompiled_targets.py"


@pytest.mark.parametrize("spec", ["flash2", f"{TARGETS}:plain"])
@pytest.mark.parametrize("gpu", ["cuda:80", "cuda:90", "hip:gfx942"])
def test_it_is_what_triton_makes(spec: str, gpu: str) -> None:
    target, compiled_for = load_target(spec), find_gpu(gpu)
    resource_usage.known.clear()
    plain: list[CapturedLaunch] = []
    with MachineCode(compiled_for) as code:
        found = capture(
            target, target.resolve({}), gpu=compiled_for, begun=lambda launches: plain.extend(launches) or code.start(launches)
        )
        used = [code.of(at, "an IR") for at, _ in enumerate(found.launches)]
    assert used == [chip_use(launch, {}, compiled_for) for launch in plain]
    assert used == [chip_use(launch, found.values, compiled_for) for launch in found.launches]
    assert used[0].shared_bytes or spec != "flash2"


def test_warpgroups_that_exchange_registers_say_how_many_there_are() -> None:
    """No assembler is asked, and would not say otherwise."""
    target = load_target("ioaware.kernels.attention.targets:hopper")
    derived = derive(target, target.resolve({"seq_len": 256}))
    found = capture(target, target.resolve({"seq_len": 256}))
    (kernel,) = (compiled(launch, found.values, DEFAULT_GPU) for launch in found.launches)
    assert derived.launches[0].registers == registers_declared(kernel.asm["ptx"]) == resources(kernel.asm["cubin"])[0]
    assert registers_declared(kernel.asm["ptx"].replace("setmaxnreg", "other")) is None
    assert registers_declared(kernel.asm["ptx"].replace("sm_90a", "sm_100a")) is None


class AtOnce(ThreadPoolExecutor):
    """Threads that are always in time, however busy the machine is."""

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        done = super().submit(*given, **named)
        wait([done])
        return done


@pytest.mark.parametrize(("spec", "times"), [("ioaware.kernels.attention.targets:hopper", 1), ("flash2", 2)])
def test_one_front_end_where_integers_are_not_specialised(spec: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The IR for the given numbers is then that for any; flash2's own is another one for multiples of 16."""
    plain, made = compile_module.fresh_ir, list[object]()

    def counted(source: object, *rest: object) -> object:
        made.append(source)
        return plain(source, *rest)

    for module in (compile_module, resource_usage):
        monkeypatch.setattr(module, "fresh_ir", counted)
    monkeypatch.setattr(resource_usage, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setenv("IOAWARE_CACHE_DIR", "")
    for kept in (compile_module._texts, resource_usage.known):
        kept.clear()
    target = load_target(spec)
    derive(target, target.resolve({"seq_len": 1024}))
    assert len(made) == times


def test_nothing_goes_on_after_a_failure() -> None:
    """Also where the host function fails while threads are at work."""
    target = load_target("flash2")
    resource_usage.known.clear()
    code = MachineCode(DEFAULT_GPU)

    def fails() -> None:
        with code:
            capture(target, target.resolve({}), begun=code.start)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert code._threads._threads
    assert all(not thread.is_alive() for thread in code._threads._threads)


def test_what_ptxas_refuses_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    target = load_target(zoo("host_descriptor"))
    with pytest.raises(UsageError, match="ptxas"):
        derive(target, target.resolve({}))
    assert capfd.readouterr().out == ""


def test_a_hook_of_the_users_has_its_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the same kernel was lowered without it before."""
    from triton import knobs

    target, asked = load_target(f"{TARGETS}:plain"), list[object]()
    assert derive(target, target.resolve({})).launches[-1].registers

    def hook(*args: object) -> tuple[str, str]:
        asked.append(args)
        return "key", "hash"

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", hook)
    assert derive(target, target.resolve({})).launches[-1].registers
    assert asked
