"""`ioaware derive TARGET`: exact formulas of the requested bytes.

They are derived from the kernels' compiled IR.
"""

from __future__ import annotations

from pathlib import Path

import click

from ioaware.cli.isolated import isolated
from ioaware.cli.options import (
    config_option,
    eager_option,
    gpu_option,
    json_option,
    output_option,
    param_option,
    settings,
    verb,
)
from ioaware.cli.output import emit
from ioaware.errors import UsageError


@verb
@click.argument("target", metavar="TARGET")
@param_option
@gpu_option
@config_option
@click.option("--latex", "as_latex", is_flag=True, help="Formulas in LaTeX.")
@click.option("--counters", is_flag=True, help="Add the L1 counters that Nsight Compute would report.")
@click.option("--check", is_flag=True, help="Count each exact launch again, by plain interpretation at the given values.")
@eager_option
@click.option(
    "--gpus",
    type=click.IntRange(2, 64),
    metavar="P",
    help="Instead, what each of P GPUs sends and receives.",
)
@click.option("--against-eager", is_flag=True, help="Show what torch.compile saves: compiled and uncompiled side by side.")
@json_option
@output_option("Write here instead of to stdout.")
@isolated
def derive(
    target: str,
    given: dict[str, str],
    gpu: str,
    config: dict[str, str],
    as_latex: bool,
    counters: bool,
    check: bool,
    eager: bool,
    gpus: int | None,
    against_eager: bool,
    as_json: bool,
    output: Path | None,
) -> None:
    """Derive formulas of the bytes that the kernels of TARGET request.

    They are in its own parameters.

    Runs the host function on tensors without memory and compiles each launch for a GPU that need not be present. Prints for
    each launch and in total the formula, its leading term, its value, the intensity, and the ratio to the compulsory bytes.
    --counters adds the L1 requests of each launch, under Nsight Compute's names. --check counts each exact launch again by
    plain interpretation. --against-eager shows what torch.compile saves. A number that depends on data is a named
    unknown; -p sets it, as in -p 'Lock@layer_norm.py:179=0'.

    With --gpus P the host function runs as each of P ranks: what it sends and receives, and what its kernels request.
    Example: ioaware derive ioaware.kernels.attention.distributed.rank_targets:forward -p method=ring --gpus 4

    Example: ioaware derive flash2 -p seq_len=4096
    """
    from ioaware.cli.formula_tables import derived_text
    from ioaware.compilation.triton_ir import find_gpu
    from ioaware.derivation.data_dependent import split_unknowns
    from ioaware.derivation.derive import derive as run_derived
    from ioaware.targets.signature import infer_value
    from ioaware.targets.target import load_target

    chosen_gpu = find_gpu(gpu)
    loaded = load_target(target, chosen_gpu)
    named, data = split_unknowns(given)
    params = loaded.resolve(named, typed=True)
    if gpus is not None:
        _refuse_beside_gpus(latex=as_latex, counters=counters, check=check, eager=eager, against_eager=against_eager)
        from ioaware.cli.tables.rank_tables import ranks_data, ranks_text
        from ioaware.derivation.exchanges import derive_exchanges
        from ioaware.derivation.rank_kernels import derive_rank_kernels

        found = derive_exchanges(loaded, params, gpus)
        chosen = {name: infer_value(text) for name, text in config.items()}
        kernels = derive_rank_kernels(loaded, params, found, gpu=chosen_gpu, autotune=chosen, data=data)
        emit(
            lambda: ranks_data(target, params, found, kernels),
            lambda: ranks_text(target, params, found, kernels),
            as_json=as_json,
            output=output,
        )
        return
    chosen = {name: infer_value(text) for name, text in config.items()}
    if against_eager:
        from ioaware.cli.eager_tables import against_eager_text
        from ioaware.derivation.against_eager import against_eager as run_both

        both = run_both(loaded, params, gpu=chosen_gpu, autotune=chosen, data=data)
        emit(both.to_dict, lambda: against_eager_text(both), as_json=as_json, output=output)
        return
    result = run_derived(
        loaded, params, gpu=chosen_gpu, autotune=chosen, data=data, counters=counters, check=check, eager=eager
    )
    verbose = settings().verbose
    emit(result.to_dict, lambda: derived_text(result, as_latex=as_latex, verbose=verbose), as_json=as_json, output=output)


def _refuse_beside_gpus(**flags: bool) -> None:
    """Raise `UsageError` for a flag of the kernels' derivation."""
    for name, given in flags.items():
        if given:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"derive --gpus counts transfers, and {flag} is about kernels", "Leave one of them out.")


command = derive
