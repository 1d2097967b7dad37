"""Experiments: their specification, and the steps that carry it out.

Lives here: the specification of an experiment (one TOML), its folder, its stages (prepare, train, sample, evaluate,
analyse, report) and the plan that says which of them are still to be done.
May not: compute a metric, train a second way, draw.
May import: everything below.
"""
