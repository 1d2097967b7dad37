"""Training: one loop, its checkpoints and its journal.

Lives here: the only training loop of the project. What differs between methods is an `Objective`.
May not: know methods by name, draw patients, compute metrics.
May import: models, scaffold, data, torch, accelerate and the ground floor.
"""
