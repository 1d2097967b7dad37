"""Judges: programs that others wrote, asked about synthetic patients and about held-out real ones.

Lives here: the table of judges, the environments they run in, the files they are given, and their verdicts.
May not: import a judge; each runs in a virtual environment of its own and sees exported files alone.
May import: data, io, evaluation and the ground floor. What stands in `scripts` imports nothing of this package.
"""
