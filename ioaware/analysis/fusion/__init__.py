"""Consecutive reductions fused into one pass: the combiner and its proof, or why there is none."""
