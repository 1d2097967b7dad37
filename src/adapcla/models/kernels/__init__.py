"""Gradients written by hand.

Each file has the plain form, which autograd differentiates by itself, beside the one written by hand, and says at its
head what the latter gains in time and memory (`benchmarks/kernels.py`); tests hold that both agree.
"""
