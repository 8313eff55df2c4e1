"""Describe the addresses of an access: affine terms, and runs of bytes."""
