"""Fuse consecutive reductions into one pass, or prove that none exists.

Fusion finds the combiner and its proof, and otherwise proves that there is no combiner.
"""
