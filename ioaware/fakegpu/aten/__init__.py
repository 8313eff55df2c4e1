"""Bytes and FLOPs of torch's own operators."""
