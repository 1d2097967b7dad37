"""Gradients written by hand, where they are worth it.

Each file has the plain form, which autograd differentiates by itself, beside the one written by hand, and says at its
head what the latter gains (`benchmarks/kernels.py`); tests hold that both agree. What gains less than 1.2 times is left
to autograd.
"""
