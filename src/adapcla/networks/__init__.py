"""What is learned: networks that turn a history of visits into logits for the next one.

Lives here: batches, layers, heads, and one file a network, readable top-down. Networks return logits; a sigmoid is
taken only where a code is drawn.
May not: run a training loop, read files, know methods by name.
May import: torch, records, scaffold and the ground floor.
"""
