"""Compute a decoder's attention: LayerNorm on Q, K and V, a causal mask, dropout, and the gradients of all of it."""
