"""The walk of a kernel: which tiles move between HBM and on-chip memory at each step of a traced run."""
