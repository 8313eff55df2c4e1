"""Make `attention` a citizen of PyTorch.

There is an operator for transforms, SDPA's signature, and Hugging Face's models.
"""
