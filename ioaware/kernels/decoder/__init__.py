"""Compute a decoder's attention and all its gradients.

It has LayerNorm on Q, K and V, a causal mask, and dropout.
"""
