"""Predict HBM bytes.

Launches are replayed through a model of the L2 and of the order in which programs run.
"""
