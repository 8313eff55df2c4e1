"""Measure step time, tokens per second and loss of GPT-2 by attention."""
