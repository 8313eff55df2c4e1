"""Compute softmax by rows in the ways of the field.

They differ in how often they read the matrix.
"""
