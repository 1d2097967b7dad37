"""Networks that turn a history of visits into logits for the next visit.

Lives here: batches, layers, heads, and one file per network, readable top-down. Networks return logits; a sigmoid is
taken only where a code is drawn.
May not: run a training loop, read files, know methods by name.
May import: torch, data, scaffold and the ground floor.
"""
