"""Gradients written by hand, where they are worth it.

Each file has the plain form, which autograd differentiates by itself, beside the one written by hand, and says at its
head what the latter gains in time and memory (`benchmarks/kernels.py`); tests hold that both agree. A gradient that
gains less than 1.2 times at every size is left to autograd.
"""
