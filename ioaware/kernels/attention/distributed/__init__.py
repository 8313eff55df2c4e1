"""Attention over several GPUs on torch.distributed, one file a method."""
