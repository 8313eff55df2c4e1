"""Fuse consecutive reductions into one pass: find the combiner and its proof, or prove that there is none."""
