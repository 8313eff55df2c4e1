"""Walk through a kernel.

A walk shows which tiles move between HBM and on-chip memory at each step of a traced run.
"""
