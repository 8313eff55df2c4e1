"""The tests that `make test` leaves to `make test-all`, in one table.

A line has a pattern of node ids and, if the default tier keeps a sample of them, the pattern of that sample. A single long test
may have `@pytest.mark.slow` instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ATTENTION = "tests/kernels/attention"
SLOW: tuple[tuple[str, str | None], ...] = (
    # Compiled plans: one of each kernel stays.
    (
        f"{ATTENTION}/hopper/test_hopper_backward_compile.py::test_fused_kernel",
        r"128-bf16-False-0-blocks",
    ),
    (f"{ATTENTION}/hopper/test_hopper_backward_compile.py::test_dkdv_and_dq_kernels", None),
    (f"{ATTENTION}/hopper/test_hopper_compile.py::test_machine_code", "plan0-"),
    (f"{ATTENTION}/hopper/test_hopper(_backward)?_compile.py::test_(spills_of|warp_scheduler_barriers)", None),
    (f"{ATTENTION}/(decode|portable)/.*_compile.py", r"(-64-|\[64)"),
    # Hopper derivations by hand: one size of each kind stays.
    (
        f"{ATTENTION}/hopper/test_hopper_backward_bytes.py::test_derived_and_by_hand",
        "(3-512-128-in_one_kernel|2-256-256-in_two_kernels)-full",
    ),
    (r"tests/derivation/test_derive_hopper.py::test_every_formula_equals_enumeration", None),
    (r"tests/derivation/test_derive_hopper.py::test_backward_is_closed", None),
    (r"tests/derivation/test_l1_requests.py::test_gluon_tma_copies_are_boxes", None),
    (r"tests/derivation/test_derive_hopper.py::test_the_whole_result_is_shown_at_any_size", None),
    (r"tests/sweep/test_recorded.py::test_sectors_of_the_hopper_kernel_are_derived_for_paired_heads", None),
    (r"tests/sweep/test_recorded.py::test_measured_bytes_of_the_hopper_kernel_equal", r"\[128\]"),
    # Three-way agreement: flash2 stays in the derivation's tests, the others run in everything.
    (r"tests/analysis/ir/test_attention.py::test_derived_equals_predicted_and_traced", None),
    (r"tests/tracing/test_trace_cases.py::test_traced_equals_predicted", None),
    (r"tests/derivation/test_derive.py::test_derived_is_traced_and_predicted", "flash2"),
    (r"tests/derivation/test_derive.py::test_sympy_proves_the_papers_closed_form", "flash2"),
    (f"{ATTENTION}/decode/test_decode.py::test_agrees_with_float64", r"-(1|2|4|8|0|None)-dtype"),
    (f"{ATTENTION}/portable/test_portable_bytes.py::test_derived_traced_and_by_hand", r"\[portable-.*'head_dim': 40"),
    (f"{ATTENTION}/decode/test_decode_bytes.py::test_derived_traced_and_by_hand", r"'head_dim': 64"),
    # Further cases: a few of each test stay.
    (r"tests/kernels/test_cases.py::test_attention_traced", r"\[(flash2_bwd_atomic|block_sparse|decoder)\]"),
    (r"tests/kernels/test_cases.py::test_attention_derived", r"\[(flash1_bwd|block_sparse|chunked)-full\]"),
    (r"tests/kernels/test_cases.py::test_grouped", r"\[gqa_packed\]"),
    (r"tests/kernels/test_cases.py::test_(blocks_set|flops)", r"\[(chunked|flash1_bwd-causal)\]"),
    # Accuracy on every dtype, mask and shape: float16 stays.
    (f"{ATTENTION}/test_attention_accuracy.py::test_agrees_with_float64", r"float16-full|float16-causal|float16.*\(4"),
    # Resources of other GPUs, other processes, other installations.
    (r"tests/compilation/test_resource_usage.py", r"cuda:90-.*plain|after_a_failure|not_printed"),
    (r"tests/symints/test_without_dynamo.py", None),
    (r"tests/cli/test_bare_machine.py", None),
    (r"tests/scripts/test_bench_derive.py", None),
    (r"tests/sweep/test_kill.py", None),
    (r"tests/test_package.py::test_(one_top_level|everything_of_the_package)", None),
    (f"{ATTENTION}/test_attention_quiet.py", None),
    # Large launches, oversized kernels, each abnormal end of a child process.
    (r"tests/capture/test_host_code.py::test_configurations_that_cannot_run_are_skipped.*oversized", None),
    (r"tests/analysis/ir/concrete/test_interpret.py::test_large_launches_are_refused", None),
    (r"tests/compilation/execution/test_ir_execution.py::test_executions_equal_traces", r"\[[a-d]"),
    (r"tests/simulation/test_simulate.py::test_fa2_beyond_the_l2", None),
    (r"tests/capture/test_capture.py::test_repeated_derivations_do_not_leak_objects", None),
    (r"tests/kernels/test_cases.py::test_attention_traced_equals_predicted", "flash2|standard"),
    # The theorems on traces of every kernel. Constructed evidence is judged, and some kernels are traced, in the default tier.
    (r"tests/sweep/test_verify.py::test_(the_kernels|another_sound|a_planted|memory_of)", None),
    # Other processes that are waited for.
    (r"tests/tracing/test_trace_isolation.py::test_a_kernel_compiles_after_the_first_trace_of_a_process", None),
    (r"tests/sweep/test_runner.py::test_every_failure_is_one_record_and_the_rest_complete", None),
    (r"tests/sweep/test_store.py::test_eight_writers_lose_nothing", None),
    (r"tests/cli/test_endings.py::test_a_sweep_stopped_while_its_server_starts_leaves_no_directory", None),
    (r"tests/tracing/test_trace_isolation.py::test_(traces_are_the_same_with|values_are_those)", None),
    (r"tests/measurement/test_measure_processes.py::test_a_process_that_ignores_sigterm_is_killed", None),
    (r"tests/measurement/test_forked_call.py::test_limits_of_time_and_memory", None),
    (r"tests/cli/test_isolated.py::test_v_shows_the_stack_of_a_crash", None),
    # Counted again by plain interpretation: half of the zoo, and no Gluon.
    (r"tests/analysis/ir/concrete/test_interpret.py::test_execution_equals_the_formulas", r"\[[a-m]"),
    (r"tests/derivation/test_check.py::test_gluon_kernels_are_counted_again", None),
    (r"tests/capture/test_host_programs.py::test_derived_equals_traced", r"\[[0-3]\]"),
    (f"{ATTENTION}/test_attention_accuracy.py::test_agrees_on_hard_inputs", "flash2"),
    # The paper kernels' compiled plans, and kernels in the interpreter: a plan or two of each, on all shapes in everything.
    (f"{ATTENTION}/test_attention_compile.py::test_decode_spills_little_and_prefetches", r"\[64-4-fp16\]"),
    (f"{ATTENTION}/portable/test_portable.py::test_(backward|forward)", r"\[(1-1-20|2-1-128)"),
    (f"{ATTENTION}/test_attention_accuracy.py::test_(reads_any_layout|rows_longer)", "flash2"),
    (
        r"tests/analysis/fusion/test_kernel.py::test_(every_form|bytes_are_predicted)",
        r"\[(attention|flash_decoding|.*-attention)\]",
    ),
    (r"tests/simulation/test_simulate.py::test_an_infinite_l2_leaves_the_compulsory_bytes", r"\[False-flash2\]"),
    (r"tests/analysis/fusion/test_impossibility.py::test_the_examples_are_refused_with_a_certificate", r"softplus|sigmoid"),
    (r"tests/capture/test_validity.py::test_every_guard_is_checked_at_new_values", "even-"),
    # What waits, starts several processes, or repeats in a process what another test shows without one.
    (r"tests/test_documents.py::test_a_command_prints_what_is_shown\[docs/advice", None),
    (r"tests/kernels/distributed/test_context_parallel.py::test_four_ranks", None),
    (r"tests/simulation/test_sawtooth.py::test_a_wave_sawtooth_is_the_closed_form", None),
    (r"tests/test_disk_cache.py::test_damaged_files_are_replaced", None),
    (r"tests/cli/test_verbs.py::test_(a_point_that_fails_is_3|points_that_stay_open|report_writes_its_files)", None),
    (r"tests/measurement/test_ncu_csv.py::test_damage_is_refused_or_harmless", None),
    (r"tests/measurement/test_measure.py::test_(a_worker_without_a_report|a_failing_ncu).*did not end within", None),
    (r"tests/measurement/test_measure_processes.py::test_paused_time_does_not_count", None),
    (r"tests/bench/test_(precompile.py::test_a_process_that_hangs|gpu_benchmark.py::test_without_pytest_benchmark)", None),
    (r"tests/cli/test_endings.py::test_a_target_with_a_long_message", None),
    (r"tests/cli/test_isolated.py::test_the_death_of_the_child", None),
    (r"tests/sweep/test_runner.py::test_(two_sweeps_on_one_store|a_point_whose_sweep_was_killed)", None),
    (r"tests/gate/test_pytest_plugin.py::test_a_truncated_test_never_passes", None),
    (r"tests/report/test_zeros.py::test_pictures_of_zeros_are_drawn", None),
    (f"{ATTENTION}/test_attention_compile.py::test_standard_spills_no_register", None),
    # Random programs and property tests with many examples.
    (r"tests/analysis/ir/test_integer_widths.py::test_an_interval_contains_every_value", r"\[0\]"),
    (r"tests/analysis/formulas/test_ranges.py::test_random_formulas_keep_their_values", None),
    (r"tests/analysis/ir/test_fuzz.py::test_programs\[", r"\[\d*[05]\]"),
    (r"tests/analysis/ir/test_fuzz.py::test_small_programs", r"\[\d*[05]\]"),
)


def is_slow(node_id: str) -> bool:
    """Return whether the default tier leaves out the test of this node id."""
    return any(re.match(tests, node_id) and not (kept and re.search(kept, node_id)) for tests, kept in SLOW)


def stale(node_ids: Iterable[str]) -> list[str]:
    """Return the patterns that match no test."""
    ids = list(node_ids)
    return [tests for tests, _ in SLOW if not any(re.match(tests, node_id) for node_id in ids)]
