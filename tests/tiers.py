"""The tests that `make test` leaves to `make test-all`, in one table.

Further cases of long tests are left to `make test-exhaustive`. A line has a pattern of node ids and, if the default tier keeps
a sample of them, the pattern of that sample. Of families of similar cases it keeps one in n. A single long test may have
`@pytest.mark.slow` instead. `long_tests.txt` lists tests that were measured to be long (`scripts/long_tests.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

LONG_TESTS = Path(__file__).with_name("long_tests.txt")

UNMATCHED_PATTERNS: pytest.StashKey[list[str]] = pytest.StashKey()
"""Patterns that match no collected test; set where all tests are collected."""

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
        "3-512-128-in_one_kernel-full|2-256-256-in_two_kernels-causal",
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
    (r"tests/kernels/test_cases.py::test_attention_derived", r"\[(block_sparse|chunked)-full\]"),
    (r"tests/kernels/test_cases.py::test_grouped_traced", r"\[gqa_packed\]"),
    (r"tests/kernels/test_cases.py::test_grouped_derived", None),
    (r"tests/kernels/test_cases.py::test_(blocks_set|flops)", r"\[(chunked|flash1_bwd-causal)\]"),
    # Accuracy on every dtype, mask and shape: float16 stays.
    (f"{ATTENTION}/test_attention_accuracy.py::test_agrees_with_float64", r"float16-full|float16-causal|float16.*\(4"),
    # Resources of other GPUs, other processes, other installations.
    (r"tests/compilation/test_resource_usage.py", r"cuda:90-.*plain|after_a_failure|not_printed"),
    (r"tests/symints/test_without_dynamo.py", None),
    (r"tests/cli/test_bare_machine.py", None),
    (r"tests/scripts/test_bench_derive.py", None),
    (r"tests/simulation/accuracy_record/test_measured_configuration.py::test_resources_tell", None),
    (r"tests/scripts/test_foreign_hold.py::test_points_of_the_studies", None),
    (r"tests/sweep/test_kill.py", None),
    (r"tests/test_package.py::test_(one_top_level|everything_of_the_package)", None),
    (f"{ATTENTION}/test_attention_quiet.py", None),
    # Long tests whose parts have shorter ones.
    (r"tests/advice/test_advise.py::test_(text_and_json_have|a_group_that_is_no_order|a_kernel_may_spill)", None),
    (r"tests/analysis/ir/algebra/test_proofs.py::test_proven_expressions_are_never_negative", None),
    (r"tests/analysis/ir/sums/test_(summation.py::test_a_closed_sum|reindex.py::test_simplification_keeps)", None),
    (r"tests/analysis/fusion/test_impossibility.py::test_kinks_of_a_derivative", None),
    (r"tests/analysis/theory/claims/test_hbm_regimes.py::test_the_records_of_an_h200", None),
    (r"tests/capture/test_capture.py::test_(patches_are_undone|ir_is_general)", None),
    (
        r"tests/capture/test_launch_agreement.py::test_a_(seed_of|drawn_number)",
        r"\[(random|torch.initial_seed|of two widths)\]",
    ),
    (r"tests/capture/host/test_host_code.py::test_(no_contents_follow|a_branch_on_what_a_kernel|a_grid_beyond)", None),
    (r"tests/capture/test_validity.py::test_(data_reads_are_repeated|torch_guards_are_checked|every_guard_is_checked)", None),
    (r"tests/cli/test_derive_verbs.py::test_(explain_shows_a_s|explain_writes|unknowns_have|common_sub|counters_are)", None),
    (r"tests/cli/test_report_verb.py::test_(no_parameters|data_dependent_bytes)", None),
    (r"tests/derivation/test_derive.py::test_(a_newer_gpu|the_configuration_is_named|branches_pin)", None),
    (r"tests/gate/test_constant_sizes.py::test_(growth_by_the_constant|the_second_point)", None),
    (r"tests/gate/untrusted/test_cheats.py::test_what_is_right_at_one_size", None),
    (r"tests/report/attention/test_attention_page.py::test_a_picture_per_figure", None),
    (r"tests/report/pages/test_two_versions.py::test_the_page_shows_changes", None),
    (r"tests/simulation/test_sampling.py::test_(a_sampled_replay|launches_with_skew)", None),
    (r"tests/simulation/test_s(awtooth.py::test_a_reversed_sweep|imulate.py::test_(launches_start|a_larger_l2))", None),
    (r"tests/sweep/test_execute.py::test_a_measured_point_has_the_flops", None),
    (r"tests/walkthrough/test_walk.py::test_causal_and_ragged", None),
    # A second or so each, of files whose other tests show the mechanism.
    (
        r"tests/capture/host/test_host_code.py::test_(a_printed_tensor|keys_are|the_width_of|a_negative_grid|copies_of_tensors)",
        None,
    ),
    (r"tests/capture/host/test_host_code.py::test_(numbers_that_torch|random_bytes|launches_that_(a_printed|differ))", None),
    (r"tests/derivation/test_derive.py::test_(host_reads_of|registers_and|min_and_max|custom_operators_alloc)", None),
    (r"tests/derivation/test_derive.py::test_(formulas_agree_with_the_papers|code_that_checks)", None),
    (r"tests/derivation/test_rank_kernels.py::test_each_rank_has", None),
    (r"tests/derivation/test_l1_requests.py::test_operations_without_rule", None),
    (r"tests/gate/test_pytest_plugin.py::test_(facts_of_the_machine|create_writes_facts|a_module_that_needs)", None),
    (r"tests/gate/test_evasions.py::test_(another_configuration|an_error_that|a_fixture_of|a_marker_xfail|a_budget_of)", None),
    (r"tests/gate/untrusted/test_trials.py::test_(what_is_not_read|unwritten_memory|a_stated_reference_sees)", None),
    (r"tests/gate/test_constant_sizes.py::test_a_point_of_a_snapshot", None),
    (r"tests/cli/test_derive_verbs.py::test_(explain_shows|formula_leading|a_configuration_can|a_value_of_an)", None),
    (r"tests/cli/test_derive_verbs.py::test_(no_formula_is_long|an_access_out_of_bounds)", None),
    (r"tests/analysis/ir/test_memory_bounds.py::test_(alternatives_of|a_forgotten_mask_of|the_last_row_reaches)", None),
    (r"tests/simulation/accuracy_record/test_measured_configuration.py::test_a_point_is_predicted", None),
    (r"tests/advice/test_advise.py::test_what_two_kernels_do_now", None),
    (r"tests/report/pages/test_two_versions.py::test_numbers_of_both", None),
    (r"tests/measurement/test_worker.py::test_a_throttled_gpu", None),
    (r"tests/tracing/test_host_code_idioms.py::test_a_configuration_needs", None),
    (r"tests/targets/test_given_contents.py::test_the_contents_of_arguments", None),
    (r"tests/measurement/test_forked_call.py::test_temporary_files_of_the_child", "sleep"),
    (r"tests/test_disk_cache.py::test_a_value_of_another_shape", None),
    (r"tests/capture/test_index_data.py::test_(random_contents|floats_that)", None),
    (r"tests/capture/test_executions.py::test_runs_with_other_random_numbers", "gathered"),
    (r"tests/simulation/test_simulate.py::test_(a_kernel_is_compiled|text_json)", None),
    (r"tests/fakegpu/test_host_tensors.py::test_(tensors_left|copies_between)", None),
    (r"tests/gate/untrusted/test_trials.py::test_a_reference_(function|that_writes)", None),
    (r"tests/advice/test_advise.py::test_no_choice_is_begun", None),
    (r"tests/scripts/test_foreign.py::test_(bytes_at_own_data|a_target_is_examined|a_formula_wrong)", None),
    (r"tests/simulation/addresses/test_executed_launch.py::test_(tokens_of_experts|a_launch_too_long)", None),
    (r"tests/simulation/addresses/test_executed_launch.py::test_a_page_table", "70"),
    (r"tests/simulation/addresses/test_runs_of_lanes.py::test_runs_predict", None),
    (r"tests/simulation/test_streams.py::test_one_partition_holds", None),
    (r"tests/simulation/test_simulate.py::test_an_infinite_l2", None),
    (f"{ATTENTION}/test_flash2_order.py::test_requested_bytes_do_not", None),
    (f"{ATTENTION}/hopper/test_hopper_backward_bytes.py::test_sizes_stay_symbolic", None),
    (r"tests/analysis/fusion/test_kernel.py::test_the_split_form", None),
    (r"tests/analysis/ir/test_memory_bounds.py::test_(an_alternative_that|a_mask_that_is_too_wide|a_mask_or_space)", None),
    (r"tests/capture/test_executions.py::test_chance_is_looked_for", "False-2"),
    (r"tests/capture/host/test_host_code.py::test_operators_on_data_are_listed", "rows_of_a_mask"),
    (r"tests/capture/host/test_host_code.py::test_launches_that_the_clock_decides", "at_an_odd"),
    (r"tests/capture/host/test_host_code.py::test_addresses_that_differ", None),
    (r"tests/capture/test_capture.py::test_a_large_parameter", None),
    (r"tests/capture/test_fingerprint.py::test_a_cached_search", None),
    (r"tests/capture/data_reads/test_replay.py::test_millions_of_numbers", "of_a_list"),
    (r"tests/report/pages/test_target_page.py::test_a_model_of_torch_operators", None),
    (r"tests/sweep/test_recorded.py::test_measured_bytes_of_the_hopper", None),
    # Oversized kernels, each abnormal end of a child process.
    (r"tests/capture/host/test_host_code.py::test_configurations_that_cannot_run_are_skipped.*oversized", None),
    (r"tests/compilation/execution/test_ir_execution.py::test_executions_equal_traces", r"\[[a-d]"),
    (r"tests/simulation/test_simulate.py::test_fa2_beyond_the_l2", None),
    (r"tests/simulation/test_simulate.py::test_a_kernel_is_compiled_once", "flash2"),
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
    (r"tests/cli/test_isolated.py::test_v_shows_the_stack_of_a_failure", None),
    # Counted again by plain interpretation: half of the zoo, and no Gluon.
    (r"tests/analysis/ir/concrete/test_interpret.py::test_execution_equals_the_formulas", r"\[[a-m]"),
    (r"tests/derivation/test_check.py::test_gluon_kernels_are_counted_again", None),
    (r"tests/capture/host/test_host_programs.py::test_derived_equals_traced", r"\[[0-3]\]"),
    (f"{ATTENTION}/test_attention_accuracy.py::test_agrees_on_hard_inputs", "flash2"),
    # The paper kernels' compiled plans, and kernels in the interpreter: a plan or two of each, on all shapes in everything.
    (f"{ATTENTION}/test_attention_compile.py::test_decode_spills_little_and_prefetches", r"\[64-4-fp16\]"),
    (f"{ATTENTION}/portable/test_portable.py::test_(backward|forward)", r"\[(1-1-20|2-1-128)"),
    (f"{ATTENTION}/test_attention_accuracy.py::test_(reads_any_layout|rows_longer)", "flash2"),
    (
        r"tests/analysis/fusion/test_kernel.py::test_(every_form|bytes_are_predicted)",
        r"\[(flash_decoding|.*-attention)\]",
    ),
    (r"tests/simulation/test_simulate.py::test_an_infinite_l2_leaves_the_compulsory_bytes", r"\[False-flash2\]"),
    (r"tests/analysis/fusion/test_impossibility.py::test_the_examples_are_refused_with_a_certificate", r"softplus|sigmoid"),
    (r"tests/capture/test_validity.py::test_every_guard_is_checked_at_new_values", "even-"),
    # What waits, starts several processes, or repeats in a process what another test shows without one.
    (r"tests/test_documents.py::test_a_command_prints_what_is_shown\[docs/advice", None),
    (r"tests/kernels/distributed/test_context_parallel.py::test_four_ranks", None),
    (r"tests/simulation/test_sawtooth.py::test_a_wave_sawtooth_is_the_closed_form", None),
    (r"tests/test_disk_cache.py::test_(damaged_files|another_compiler_setting|a_directory_that_cannot)", None),
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
    # A second of CPU and more, beside a shorter test of the same code.
    (r"tests/advice/test_advise.py::test_a_planted_worse_configuration_ranks_lower", None),
    (r"tests/cli/test_derive_verbs.py::test_(totals_have_a_line|a_long_formula_is_shown|a_sum_has_a_leading_term)", None),
    (r"tests/cli/test_report_verb.py::test_two_versions", None),
    (r"tests/derivation/test_derive_hopper.py::test_the_forward_formula_has_the_form_of_the_theory", None),
    (r"tests/derivation/test_partial_tiles.py::test_a_counter_of_atomics_that_the_host_reads_is_refused", None),
    (r"tests/tracing/test_address_space.py::test_(pointers_from_a_table|memory_of_no_tensor|an_object_with_a_data)", None),
    (r"tests/walkthrough/test_walk.py::test_values_are_what_the_kernel_computes", None),
    (f"{ATTENTION}/decode/test_decode.py::test_a_cache_that_grows", None),
    (f"{ATTENTION}/test_attention_accuracy.py::test_heads_and_batch_are_kept_apart", r"\[flash2\]"),
    (r"tests/test_documents.py::test_a_command_prints_what_is_shown\[docs/reports.md.*--over", None),
    (r"tests/test_documents.py::test_a_command_prints_what_is_shown\[docs/context-parallel.*--gpus 4", None),
    (r"tests/cli/test_report_verb.py::test_(several_launches|commands_beside_figures)", None),
    (r"tests/cli/test_endings.py::test_a_termination_is_no_exit", None),
    (r"tests/simulation/l1/test_l1_replay.py::test_a_launch_that_loads_nothing", None),
    (r"tests/scripts/test_predict_recorded.py::test_every_point_is_tried", None),
    (
        r"tests/gate/untrusted/test_trials.py::test_(contents_alternate|a_reference_(runs_in|with_other))",
        None,
    ),
    (r"tests/advice/test_advise.py::test_tiles_of_persistent_programs", None),
    (r"tests/capture/host/test_host_code.py::test_a_callback_of_the_garbage_collector", None),
    (r"tests/compilation/test_resource_usage.py::test_threads_end_after_a_failure", None),
    # Two seconds and more of CPU on two busy cores, beside other tests of the same file.
    (r"tests/simulation/test_simulate.py::test_(the_large_forward|a_tiny_l2)", None),
    (r"tests/cli/test_derive_verbs.py::test_(latex|sectors_of_the_targets|explain_puts|conditions_in_json)", None),
    (f"{ATTENTION}/portable/test_portable_compile.py::test_backward", None),
    (f"{ATTENTION}/test_attention_compile.py::test_the_largest_head", None),
    (r"tests/measurement/test_time_bounds.py::test_no_recorded_call", None),
    (r"tests/symints/test_float_rounding.py::test_many_points", None),
    (r"tests/analysis/formulas/test_(piecewise.py::test_values_stay|hermite.py::test_random_sums)", None),
    (r"tests/tracing/test_address_space.py::test_many_tensors", None),
    (r"tests/analysis/fusion/test_impossibility.py::test_what_changes_within", None),
    (r"tests/analysis/ir/test_memory_bounds.py::test_the_last_row_of_a_tile", None),
    (r"tests/test_disk_cache.py::test_a_second_process", None),
    (r"tests/advice/test_advise.py::test_a_choice_in_work", None),
    (r"tests/capture/data_reads/test_replay.py::test_as_many_rows", None),
    (r"tests/capture/test_fingerprint.py::test_other_parameters", None),
    (r"tests/simulation/waves/test_closed_form.py::test_attention_beyond", None),
    (r"tests/targets/test_given_contents.py::test_other_sizes_read_zeros", None),
    # Random programs and property tests with many examples.
    (r"tests/analysis/ir/test_integer_widths.py::test_an_interval_contains_every_value", r"\[0\]"),
    (r"tests/analysis/formulas/test_ranges.py::test_random_formulas_keep_their_values", None),
    (r"tests/analysis/ir/test_fuzz.py::test_programs\[", r"\[\d*[05]\]"),
    (r"tests/analysis/ir/test_fuzz.py::test_small_programs", r"\[\d*[05]\]"),
)


ONE_IN: tuple[tuple[str, int], ...] = (
    # Families of similar cases: the first and every n-th after it stay.
    (r"tests/analysis/theory/claims/test_planted.py::test_(a_claim_holds_on_perfect|without_its_runs)", 4),
    (r"tests/analysis/fusion/test_kernel.py::test_(masked_elements|short_types)", 4),
    (r"tests/analysis/fusion/test_fold.py::test_every_bracketing", 4),
    (r"tests/analysis/fusion/test_combiners.py::test_the_examples_run", 3),
    (r"tests/analysis/ir/test_attention.py::test_derived_is_the_papers", 3),
    (r"tests/analysis/ir/test_active_range.py::test_the_range_is_attained", 4),
    (r"tests/analysis/ir/test_zoo.py::test_formulas_are_closed", 5),
    (r"tests/capture/host/test_second_call.py::test_a_second_call_that_launches_more", 3),
    (r"tests/compilation/test_shared_traffic.py::test_flash2_reads", 2),
    (r"tests/report/test_walk_figure.py::test_cases_have_a_page", 3),
    (r"tests/targets/test_target.py::test_(numbers_that_no_record|wrong_targets|wrong_parameters)", 4),
    (f"{ATTENTION}/test_attention_compile.py::test_flash(1|2)_spills", 4),
    (f"{ATTENTION}/test_attention_function.py::test_output_and_gradients", 3),
    (r"tests/analysis/fusion/test_chains.py::test_(every_bracketing|more_programs)", 4),
    (r"tests/analysis/fusion/test_impossibility.py::test_a_finite_rank_in_disguise", 4),
    (r"tests/analysis/ir/interpreter/test_unknown_identity.py::test_counts_that_depend_on_data", 3),
    (r"tests/analysis/ir/test_fuzz.py::test_small_programs", 3),
    (r"tests/analysis/ir/test_zoo.py::test_(derived_equals_traced|sectors_without_a_rule)", 20),
    (r"tests/analysis/ir/test_formulas.py::test_formulas_are_those_on_record", 12),
    (r"tests/analysis/ir/test_data_dependent.py::test_derive_trace_interpretation_and_hand_agree", 12),
    (r"tests/analysis/ir/test_fuzz.py::test_(programs_that_read_their_bounds|former_failures|programs_as_libraries)", 4),
    (r"tests/analysis/ir/concrete/test_interpret.py::test_execution_equals_the_formulas", 3),
    (r"tests/analysis/theory/test_counts.py::test_counts_equal_the_walk", 2),
    (r"tests/analysis/theory/claims/test_planted.py::test_a_(planted_violation|kernel_that_moves_other_bytes)", 6),
    (r"tests/capture/test_(host_code.py::test_every_launch_is_derived|index_data.py::test_bytes_at_index_tensors)", 12),
    (r"tests/capture/test_fingerprint.py::test_a_cached_search", 4),
    (
        r"tests/capture/host/test_host_code.py::test_(launches_that_(the_clock|differ|a_printed)|numbers_that_torch|sizes_that_data)",
        4,
    ),
    (
        r"tests/capture/host/test_host_code.py::test_(launches_in_the_order|runs_that_disagree|sizes_written|tensors_of_a_class)",
        3,
    ),
    (r"tests/capture/host/test_host_code.py::test_what_needs_a_gpu_is_refused", 3),
    (r"tests/capture/host/test_host_programs.py::test_derived_equals_traced", 4),
    (r"tests/capture/test_index_data.py::test_(random_contents|contents_unknown|floats_that)", 4),
    (r"tests/capture/test_validity.py::test_a_size_is_a_positive_integer", 3),
    (r"tests/capture/test_unusual_arguments.py::test_derived_equals_traced", 4),
    (r"tests/cli/test_derive_verbs.py::test_bad_input_is_one_sentence", 6),
    (r"tests/compilation/execution/test_folds.py::test_a_fold_of_lengths", 4),
    (r"tests/compilation/execution/test_chosen_pointers.py::test_each_program", 3),
    (r"tests/compilation/instructions/test_narrow_stores.py::test_(stores_that_share_sectors|rows_that_begin)", 4),
    (r"tests/derivation/test_derive.py::test_(derived_is_traced|formulas_agree_with_the_papers|argument_kinds)", 10),
    (r"tests/derivation/test_derive.py::test_(bad_targets|compulsory_is_every)", 6),
    (r"tests/derivation/test_exchanges.py::test_what_the_host_code_moves", 4),
    (r"tests/derivation/test_l1_requests.py::test_execution_classes", 4),
    (r"tests/derivation/test_data_dependent.py::test_other_contents_have", 4),
    (r"tests/derivation/test_own_data.py::test_derived_traced_and_counted", 8),
    (r"tests/calibration/test_fit.py::test_known_bytes_equal", 3),
    (r"tests/derivation/test_derive.py::test_min_and_max_of_symbols", 2),
    (r"tests/derivation/test_partial_tiles.py::test_(rows|columns|a_mask)", 6),
    (r"tests/fakegpu/test_autocast.py::test_derive_and_trace_copy", 3),
    (r"tests/fakegpu/test_host_tensors.py::test_launches_that_depend", 9),
    (r"tests/tracing/test_repeated_loads.py::test_the_note_has", 3),
    (r"tests/capture/test_symbolic_builtins.py::test_(sizes_stay|a_choice_is|a_power_of_two|a_symbol_is)", 5),
    (r"tests/symints/test_float_rounding.py::test_a_product_of_rounded", 3),
    (r"tests/gate/untrusted/test_cheats.py::test_each_rule_finds_its_cheat", 8),
    (r"tests/gate/test_pytest_plugin.py::test_a_damaged_snapshot_never_passes", 3),
    (f"{ATTENTION}/hopper/test_hopper_backward_bytes.py::test_derived_and_by_hand", 2),
    (r"tests/kernels/test_cases.py::test_softmax_traced", 8),  # each is derived
    (r"tests/kernels/test_cases.py::test_(softmax|attention)_derived", 3),
    (r"tests/report/pages/stores/test_store_page.py::test_a_shipped_study", 4),
    (r"tests/report/test_figures.py::test_one_point_is_enough", 3),
    (r"tests/report/test_zeros.py::test_impossible_numbers", 8),
    (r"tests/simulation/addresses/test_runs_of_lanes.py::test_elements_apart", 4),
    (r"tests/simulation/test_streams.py::test_groups_of_adjacent_tiles", 2),
    (r"tests/simulation/test_working_sets.py::test_a_prediction_(names_its_regime|between)", 9),
    (r"tests/simulation/addresses/test_known_contents.py::test_loaded_values", 7),
    (r"tests/symints/test_guard_evaluation.py::test_arrays_evaluate_like_single_points", 4),
    (r"tests/targets/test_library_folders.py::test_code_in_a_folder", 4),
    (r"tests/targets/test_module_state.py::test_verbs_share_no_state", 4),
    (r"tests/test_documents.py::test_a_(command|session)_prints_what_is_shown", 7),
    (r"tests/test_prediction.py::test_formulas_give_the_numbers", 9),
    (r"tests/tracing/test_(host_code_idioms|trace_counts).py::test_(traced_bytes|values_are|two_traces)", 9),
    (r"tests/tracing/source/test_dead_loads.py::test_(a_loop_of_one|values_for_another)", 3),
    (r"tests/tracing/test_trace_cases.py::test_flops_equal_the_prediction", 3),
    (r"tests/walkthrough/test_walk.py::test_every_forward_case", 4),
)


EVERY_CASE = re.compile(
    # Each case is a mechanism or a claim of its own: none is left out.
    r"tests/(test_documents|gate/untrusted/test_cheats|gate/test_(evasions|switches)|cli/test_isolated)\.py"
)
EXHAUSTIVE = (
    # Ten seconds and more of CPU each, beside a case or a test that is like it.
    r"tests/sweep/test_kill.py::test_killed_at_random_moments\[200\]",
    r"tests/sweep/test_verify.py::test_(the_kernels_satisfy|memory_of)",  # `verify` itself runs in test_claims_page.py
    r"tests/sweep/test_recorded.py::test_sectors_of_the_hopper_kernel_are_derived_for_paired_heads",
    r"tests/torchcompile/test_compiled_functions.py::test_attention_as_on_a_cpu_is_not_exact\[encoder_layer",
    r"tests/torchcompile/test_compiled_functions.py::test_what_is_compiled_afterwards_is_not_changed\[trace",
    r"tests/torchcompile/test_compiled_functions.py::test_gradients_are_those_of_the_compiled_backward\[dynamic",
    r"tests/tracing/test_trace_cases.py::test_traced_equals_predicted\[standard",
    f"{ATTENTION}/hopper/test_hopper_backward_compile.py::test_(fused_kernel|dkdv_and_dq_kernels).*-1-",
    f"{ATTENTION}/hopper/test_hopper_compile.py::test_machine_code\\[plan1[0-9]",
)
"""Slow tests that `make test-all` leaves out."""
FIRST, THEN_ONE_IN = 1, 6
"""Of the slow cases of a test, the first and then one in six stay.

`make test-all` runs them.
"""


def exhaustive(slow_ids: Iterable[str]) -> frozenset[str]:
    """Return the slow node ids that `make test-all` leaves out.

    Node ids come in the order of collection.
    """
    left: set[str] = set()
    cases: Counter[str] = Counter()
    named = re.compile("|".join(EXHAUSTIVE))
    for node_id in slow_ids:
        if named.match(node_id):
            left.add(node_id)
            continue
        test, _, case = node_id.partition("[")
        beyond = cases[test] - FIRST
        cases[test] += 1
        if case and beyond >= 0 and (beyond + 1) % THEN_ONE_IN and not EVERY_CASE.match(test):
            left.add(node_id)
    return frozenset(left)


def long_tests() -> frozenset[str]:
    """Return the tests that were measured to be long.

    They are node ids without cases.
    """
    return frozenset(LONG_TESTS.read_text(encoding="utf-8").split())


def slow(node_ids: Iterable[str]) -> frozenset[str]:
    """Return the node ids that the default tier leaves out.

    Node ids come in the order of collection.
    """
    node_ids = list(node_ids)
    long = long_tests()
    left = {node_id for node_id in node_ids if node_id.partition("[")[0] in long}
    cases: Counter[str] = Counter()
    whole = [(re.compile(tests).match, kept and re.compile(kept).search) for tests, kept in SLOW]
    parts = [(re.compile(tests).match, one_in) for tests, one_in in ONE_IN]
    any_ = re.compile("|".join(tests for tests, _ in (*SLOW, *ONE_IN)))
    for node_id in filter(any_.match, node_ids):
        if any(matches(node_id) and not (keeps and keeps(node_id)) for matches, keeps in whole):
            left.add(node_id)
            continue
        for family, one_in in parts:
            if family(node_id):
                test = node_id.partition("[")[0]
                if cases[test] % one_in:
                    left.add(node_id)
                cases[test] += 1
    return frozenset(left)


def stale(node_ids: Iterable[str]) -> list[str]:
    """Return the patterns and the listed tests that match no test."""
    ids = list(node_ids)
    patterns = *(tests for tests, _ in (*SLOW, *ONE_IN)), *EXHAUSTIVE
    missing = long_tests() - {node_id.partition("[")[0] for node_id in ids}
    return [*(tests for tests in patterns if not any(map(re.compile(tests).match, ids))), *sorted(missing)]
