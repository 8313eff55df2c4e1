"""Run torch.compile without a GPU.

It gives the compiler's own Triton kernels for the fake GPU, and their launches.
"""
