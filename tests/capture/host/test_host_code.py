"""Unusual host code is followed or refused.

It has state, tables, modules, custom operators and autotuners.
"""

from __future__ import annotations

import datetime
import gc
import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pytest

from ioaware.derivation.derive import derive
from ioaware.derivation.derived import Derived
from ioaware.errors import UsageError
from ioaware.fakegpu.host_caller import is_library
from ioaware.targets.loading import load_file
from ioaware.targets.target import load_target
from ioaware.tracing.trace import trace
from tests.support import SUPPORT

TARGETS = SUPPORT / "targets/host_code_targets.py"


@pytest.fixture(scope="module")
def targets() -> ModuleType:
    return load_file(Path(TARGETS))


def derive_target(targets: ModuleType, name: str, *, machine_code: bool = False, **params: Any) -> Derived:
    target = load_target(getattr(targets, name))
    return derive(target, target.resolve(params), machine_code=machine_code)


@pytest.mark.parametrize(
    ("name", "launches", "reads"),
    [
        ("first_call_only", 2, "8*n"),
        ("cached_workspace", 2, "8*n"),
        ("workspace_of_a_shape", 1, "4*m*n"),
        ("kept_kernel", 2, "8*n"),
        ("registers", 2, "8*n"),
        ("wrapped", 1, "4*n"),
        ("cached_size", 1, "4*m*n"),
        ("looked_up", 1, "512*n"),
        ("tensor_as_size", 1, "120*n"),
        ("tensor_as_size_in_torch", 1, "120*n"),
        ("float_from_a_kernel", 2, "8*n"),
        ("number_from_a_kernel", 2, "8*n"),
        ("optional_bias", 1, "8*n"),
        ("module_from_outside", 1, "8192"),
        ("module_from_inside", 1, "2*inputs*outputs"),
        ("moved", 1, "2*n"),
        ("queries", 1, "4*n"),
        ("own_autotuner", 1, "4*n"),
        ("operator_with_a_fake", 1, "4*n"),
        ("operator_for_cuda", 2, "8*n"),
        ("on_another_stream", 2, "8*n"),
        ("counted_in_the_environment", 1, "4*n"),
        ("named_by_the_system", 1, "4*n"),
        ("timed", 1, "4*n"),
        ("hashed", 1, "4*n"),
        ("exact_types", 1, "4*n"),
        ("drawn_from_a_seed", 1, "4*n"),
        ("initialised_within_bounds", 1, "4*n*width"),
        ("optimised", 1, "4*n**2"),
    ],
)
def test_every_launch_is_derived(targets: ModuleType, name: str, launches: int, reads: str) -> None:
    for _ in range(2):  # a derivation restores the state of host code
        result = derive_target(targets, name)
        assert result.exact
        assert result.requested is not None
        assert result.requested.read_formula == reads
        assert sum(launch.origin == "triton" for launch in result.launches) == launches


@pytest.mark.parametrize("name", ["drawn_by_torch", "drawn_on_the_gpu"])
def test_numbers_that_torch_draws_are_not_exact(targets: ModuleType, name: str) -> None:
    result = derive_target(targets, name)
    assert not result.exact
    assert any("random numbers" in note for note in result.notes)


def test_random_bytes_of_the_system_are_not_exact(targets: ModuleType) -> None:
    """They are the same in each run, and a note says that they decide the launches."""
    results = [derive_target(targets, "drawn_from_the_system") for _ in range(2)]
    assert len({len(result.launches) for result in results}) == 1
    assert not any(result.exact for result in results)
    assert any("random numbers" in note for note in results[0].notes)


def test_an_exact_quotient_is_a_condition(targets: ModuleType) -> None:
    """It is no number: the quotient times the divisor is the size itself."""
    result = derive_target(targets, "in_heads")
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_formula == "4*n"
    assert any("n % 4 == 0" in note for note in result.notes)


def test_memory_handed_to_another_library_is_refused(targets: ModuleType) -> None:
    """A fake tensor has none, and reading it ended the process."""
    with pytest.raises(UsageError, match="to another library at host_code_targets"):
        derive_target(targets, "handed_to_another_library")


def test_a_negative_grid_is_an_error(targets: ModuleType) -> None:
    with pytest.raises(UsageError, match="negative grid"):
        derive_target(targets, "on_a_negative_grid")


@pytest.mark.parametrize("name", ["sparse_blocks", "sparse_values", "merged_values", "as_many_classes_as_there_are"])
def test_sizes_that_data_decide_are_refused_or_right(targets: ModuleType, name: str) -> None:
    """Sparse tensors of fake ones are empty, and torch on a CPU reads more."""
    try:
        derived = derive_target(targets, name)
    except UsageError:
        return
    traced = trace(load_target(getattr(targets, name)), {})
    assert derived.requested
    assert traced.requested
    assert derived.requested.read_bytes == traced.requested.read_bytes


def test_widths_of_initialised_modules_stay_symbolic(targets: ModuleType) -> None:
    result = derive_target(targets, "initialised_by_torch")
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_formula == "4*cols*n"


@pytest.mark.parametrize(("name", "operator"), [("compared", "aten.equal.default"), ("rows_of_a_mask", "aten.clone.default")])
def test_operators_on_data_are_listed_as_in_a_trace(targets: ModuleType, name: str, operator: str) -> None:
    result, traced = derive_target(targets, name), trace(load_target(getattr(targets, name)), {})
    assert operator in [launch.kernel for launch in result.launches]
    assert [launch.kernel for launch in result.launches] == [launch.kernel for launch in traced.launches]
    assert result.assumed is not None
    assert traced.assumed is not None
    assert result.assumed.read_bytes == traced.assumed.read_bytes


def test_addresses_that_differ_between_runs_are_no_other_launches(targets: ModuleType) -> None:
    result = derive_target(targets, "address_and_data")
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_bytes == 4000


def test_the_width_of_attention_stays_symbolic(targets: ModuleType) -> None:
    result = derive_target(targets, "attention_of_a_width")
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_formula == "8*n*width"
    assert result.evaluate(n=7, width=24)["read_bytes"] == 8 * 7 * 24
    traced = trace(load_target(targets.attention_of_a_width), {})
    assert result.assumed is not None
    assert traced.assumed is not None
    assert result.assumed.read_bytes == traced.assumed.read_bytes
    assert result.assumed.write_bytes == traced.assumed.write_bytes
    with pytest.raises(UsageError, match="do not hold"):
        result.evaluate(n=7, width=22)


@pytest.mark.parametrize(
    "name",
    [
        "at_an_odd_nanosecond",
        "within_a_time",
        "in_the_morning",
        "on_a_weekday",
        "by_the_second",
        "by_a_dated_name",
        "in_a_new_thread",
    ],
)
def test_launches_that_the_clock_decides_are_not_exact(targets: ModuleType, name: str) -> None:
    results = [derive_target(targets, name) for _ in range(2)]
    assert len({len(result.launches) for result in results}) == 1
    assert not any(result.exact for result in results)
    assert any("reads the clock" in note for note in results[0].notes)
    assert targets.perf_counter is time.perf_counter
    assert targets.datetime is datetime.datetime


@pytest.mark.parametrize(
    "name",
    [
        "by_the_hash_of_text",
        "by_the_hash_of_a_tuple",
        "by_the_hash_of_a_dataclass",
        "by_an_address",
        "by_the_number_of_the_process",
        "by_an_imported_name",
    ],
)
def test_launches_that_differ_between_processes_are_not_exact(targets: ModuleType, name: str) -> None:
    result = derive_target(targets, name)
    assert not result.exact
    assert any("number of its process" in note for note in result.notes)
    assert targets.getpid is os.getpid
    assert not {"hash", "id"} & vars(targets).keys()


@pytest.mark.parametrize("name", ["by_a_printed_length", "by_a_printed_number", "by_a_logged_tensor"])
def test_launches_that_a_printed_tensor_decides_are_not_exact(targets: ModuleType, name: str) -> None:
    result = derive_target(targets, name)
    assert not result.exact
    assert any("prints tensors" in note for note in result.notes)


def test_a_printed_tensor_looks_like_a_real_one(targets: ModuleType) -> None:
    for result in (derive_target(targets, "printed"), trace(load_target(targets.printed), {})):
        assert result.exact
        assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"]


@pytest.mark.parametrize(("name", "launches"), [("of_its_own_class", 2), ("of_its_own_class_with_gradient", 1)])
def test_tensors_of_a_class_of_the_users(targets: ModuleType, name: str, launches: int) -> None:
    results = derive_target(targets, name), trace(load_target(getattr(targets, name)), {})
    for result in results:
        assert result.exact
        assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"] * launches
    assert results[0].requested is not None
    assert results[0].requested.read_formula == f"{4 * launches}*n"


@pytest.mark.parametrize("name", ["by_the_text_of_a_size", "by_the_text_of_a_shape", "by_the_text_of_a_dataclass"])
def test_sizes_written_as_text_are_checked_by_running(targets: ModuleType, name: str) -> None:
    result = derive_target(targets, name)
    assert any("is text at" in note for note in result.notes)
    assert result.evaluate(n=200)
    with pytest.raises(UsageError, match="other launches"):
        result.evaluate(n=2000)


@pytest.mark.parametrize("name", ["copied_deeply", "on_a_device"])
def test_copies_of_tensors_and_devices(targets: ModuleType, name: str) -> None:
    for result in (derive_target(targets, name), trace(load_target(getattr(targets, name)), {})):
        assert result.exact
        assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"]


def test_templates_of_torchs_compiler_are_no_host_code() -> None:
    assert is_library(jinja2.environment.__file__)
    assert not is_library(__file__)


@pytest.mark.parametrize("name", ["first_of_a_set", "popped", "listed", "smallest_by_key"])
def test_launches_in_the_order_of_a_set_are_not_exact(targets: ModuleType, name: str) -> None:
    for result in (derive_target(targets, name), trace(load_target(getattr(targets, name)), {})):
        assert not result.exact
        assert any("the order of a set at host_code_targets.py:" in note for note in result.notes)


def test_sets_whose_order_is_not_used(targets: ModuleType) -> None:
    result = derive_target(targets, "sets_without_order")
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_formula == "4*n"


def test_launches_that_differ_on_real_tensors_are_not_exact(targets: ModuleType) -> None:
    """They are compared where a run on real tensors reads data."""
    result = derive_target(targets, "by_the_type_of_a_tensor")
    assert not result.exact
    assert any("on real tensors" in note for note in result.notes)


def test_a_callback_of_the_garbage_collector_is_not_host_code(targets: ModuleType) -> None:
    readings: list[float] = []
    gc.callbacks.append(lambda *_: readings.append(time.perf_counter()))
    try:
        result = derive_target(targets, "collecting")
    finally:
        del gc.callbacks[-1]
    assert readings
    assert result.exact
    assert result.symbols


@pytest.mark.parametrize(("name", "launches"), [("opaque_state", 2), ("opaque_failure", 1)])
def test_runs_that_disagree_give_no_symbols(targets: ModuleType, name: str, launches: int) -> None:
    targets.counter = type(targets.counter)()
    result = derive_target(targets, name)
    assert [launch.kernel for launch in result.launches if launch.origin == "triton"] == ["scale_kernel"] * launches
    assert result.requested is not None
    assert result.requested.read_bytes == 4000 * launches
    assert not result.symbols
    assert not result.exact
    assert any("when it is called again" in note for note in result.notes)


def test_views_move_nothing(targets: ModuleType) -> None:
    result = derive_target(targets, "module_from_outside")
    assert result.assumed is None
    assert not any(parameter.__class__.__name__ == "FakeTensor" for parameter in targets.outside.parameters())


def test_a_pointer_to_no_tensor_is_refused(targets: ModuleType) -> None:
    with pytest.raises(UsageError, match="in no known tensor"):
        derive_target(targets, "wild_pointer")


@pytest.mark.parametrize("name", ["branch_on_a_number", "branch_on_an_item"])
def test_a_branch_on_what_a_kernel_computes_is_refused(targets: ModuleType, name: str) -> None:
    with pytest.raises(UsageError, match=r"host_code_targets\.py"):
        derive_target(targets, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("result_as_an_array", "reads what a kernel computed at host_code_targets.py:"),
        ("result_compared", "compares what a kernel computed at host_code_targets.py:"),
        ("graph_of_launches", "records a CUDA graph"),
        ("timed_by_the_host", "benchmarks a kernel"),
        ("by_the_clock_of_the_gpu", "reads the GPU.s clock"),
        ("saved_to_memory", "saves or pickles a tensor at host_code_targets.py:"),
        ("pickled", "saves or pickles a tensor at host_code_targets.py:"),
    ],
)
def test_what_needs_a_gpu_is_refused_in_one_sentence(targets: ModuleType, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refusal:
        derive_target(targets, name)
    assert refusal.value.remedy


def test_no_contents_follow_from_what_a_kernel_computes(targets: ModuleType) -> None:
    result = derive_target(targets, "index_from_a_number")
    assert not result.exact
    assert result.launches[-1].requested is not None
    assert result.launches[-1].requested.write_bytes is None


def test_a_pointer_without_elements_is_null(targets: ModuleType) -> None:
    result = derive_target(targets, "optional_bias", biases=0)
    assert result.exact
    assert result.requested is not None
    assert result.requested.read_formula == "4*n"


def test_a_configuration_is_chosen_for_each_kernel(targets: ModuleType) -> None:
    target = load_target(targets.two_tuned_kernels)
    autotune = {"keyed_kernel:BLOCK": 32, "uncompilable_kernel:BLOCK": 128}
    result = derive(target, target.resolve({}), machine_code=False, autotune=autotune)
    grids = [launch.grid[0] for launch in result.launches if launch.origin == "triton"]
    assert grids == [32, 8]
    assert {name: result.tuning[name] for name in autotune} == autotune


def test_alignment_is_a_guard(targets: ModuleType) -> None:
    result = derive_target(targets, "branch_on_alignment")
    assert "skip % 4 == 0" in result.conditions
    with pytest.raises(UsageError, match="skip % 4 == 0"):
        result.evaluate(skip=7)


def test_keys_are_checked_by_running(targets: ModuleType) -> None:
    result = derive_target(targets, "looked_up_or_default")
    assert result.requested is not None
    assert result.requested.read_formula == "4*d*n"
    assert any("d is the key of a cache or table" in note for note in result.notes)
    assert result.evaluate(d=96, n=7)["read_bytes"] == 4 * 96 * 7
    with pytest.raises(UsageError, match="do not hold at d=128"):
        result.evaluate(d=128)
    assert len(derive_target(targets, "looked_up_or_default", d=128).kernels) == 3


def test_a_grid_beyond_the_limits_of_cuda_is_not_exact(targets: ModuleType) -> None:
    result = derive_target(targets, "tall_grid")
    assert not result.exact
    assert "70,000 programs along y" in result.launches[-1].notes[-1]
    small = derive_target(targets, "tall_grid", rows=65_535)
    assert small.exact
    assert small.evaluate(rows=3)["write_bytes"] == 12
    with pytest.raises(UsageError, match="y of the grid of tall_kernel"):
        small.evaluate(rows=65_536)


@pytest.mark.parametrize(
    ("name", "chosen", "refused"),
    [
        ("uncompilable_configuration", "derived with BLOCK=128", "power of 2"),
        ("oversized_configuration", "derived with SIZE=64", "bytes of shared memory"),
    ],
)
def test_configurations_that_cannot_run_are_skipped(targets: ModuleType, name: str, chosen: str, refused: str) -> None:
    result = derive_target(targets, name, machine_code=True)
    (note,) = (note for note in result.launches[-1].notes if note.startswith("autotuned over"))
    assert chosen in note
    assert refused in note
    assert result.exact


def test_configurations_that_fail_alike_are_named_once(targets: ModuleType) -> None:
    with pytest.raises(UsageError) as refused:
        derive_target(targets, "only_uncompilable_configurations", machine_code=True)
    assert "num_stages=3 and 2 others are passed over: wrong_kernel does not compile" in str(refused.value)
    assert str(refused.value).count("undefined_name") == 1


def test_a_tensor_as_a_constant_is_derived_at_the_given_values_only(targets: ModuleType) -> None:
    result = derive_target(targets, "tensor_as_constant")
    assert (result.requested and result.requested.read_bytes, result.symbols) == (4000, {})
