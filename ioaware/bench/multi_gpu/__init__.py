"""Bytes and speed of attention over several GPUs, and of the links between them."""
