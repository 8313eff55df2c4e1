"""Name the optional L1 counters.

They count sectors and bytes that warps request from their L1, and accesses to shared memory.
"""

from __future__ import annotations

from ioaware.measurement.counters.ncu_csv import Metric

_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}.sum"
READ_SECTORS, WRITE_SECTORS = _SECTORS.format("global_op_ld"), _SECTORS.format("global_op_st")
"""Sectors requested by loads and by stores, per instruction.

Asynchronous copies count as loads.
"""
REFETCHED = "sectors that copies past the L1 fetch beyond those requested"
"""Of derived requests alone: no counter has it."""
HITS = _SECTORS.format("global_op_ld_lookup_hit")
REDUCTIONS, ATOMICS = _SECTORS.format("global_op_red"), _SECTORS.format("global_op_atom")
"""Sectors of atomics without a return value, and of atomics with one."""
SPILL_READS, SPILL_HITS = _SECTORS.format("local_op_ld"), _SECTORS.format("local_op_ld_lookup_hit")
SPILL_WRITES = _SECTORS.format("local_op_st")

TMA_READS = "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum"
TMA_WRITES = "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum"
"""Bytes stored by the tensor memory accelerator, which bypass the L1."""

_DATA = "sm__sass_data_bytes_mem_global_op_{}.sum"
READ_DATA, COPY_DATA, WRITE_DATA = _DATA.format("ld"), _DATA.format("ldgsts"), _DATA.format("st")
"""Distinct bytes requested by the active threads of each access.

An access is a load, an asynchronous copy or a store.
"""

L1_COUNTERS = (
    *(
        Metric(name, "count")
        for name in (READ_SECTORS, HITS, WRITE_SECTORS, REDUCTIONS, ATOMICS, SPILL_READS, SPILL_HITS, SPILL_WRITES)
    ),
    *(Metric(name, "byte") for name in (TMA_READS, TMA_WRITES, READ_DATA, COPY_DATA, WRITE_DATA)),
)

_SHARED = "smsp__sass_inst_executed_op_shared_{}.sum"
SHARED_LOADS, SHARED_STORES = _SHARED.format("ld"), _SHARED.format("st")
"""Instructions of warps that load from shared memory, or store to it.

Those of no active thread are not counted. ncu counts by instructions that it adds to the kernel, so the counts are exact.
"""
_WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
SHARED_LOAD_WAVEFRONTS, SHARED_STORE_WAVEFRONTS = _WAVEFRONTS.format("ld"), _WAVEFRONTS.format("st")
"""Cycles of the shared memory's data pipe, by the addresses.

More than one an instruction are bank conflicts.
"""
_ISSUED = "smsp__inst_executed_op_shared_{}_pred_on_any.sum"
SHARED_LOADS_ISSUED, SHARED_STORES_ISSUED = _ISSUED.format("ld"), _ISSUED.format("st")
"""The same instructions by a hardware counter, which counts some of them twice."""
_PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
SHARED_LOAD_CYCLES, SHARED_STORE_CYCLES = _PIPE.format("ld"), _PIPE.format("st")
"""The same cycles by a hardware counter.

They are more where the pipe is shared with other accesses.
"""

SHARED_COUNTERS = tuple(
    Metric(name, "count")
    for name in (
        *(SHARED_LOADS, SHARED_STORES, SHARED_LOAD_WAVEFRONTS, SHARED_STORE_WAVEFRONTS),
        *(SHARED_LOADS_ISSUED, SHARED_STORES_ISSUED, SHARED_LOAD_CYCLES, SHARED_STORE_CYCLES),
    )
)
