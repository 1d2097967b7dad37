"""Steps that are kept by key and resume: what a release and a study are made of.

Lives here: the specification, the folder, the stages (prepare, train, sample, evaluate), the driver that runs steps in
order, and estimates of time and memory.
May not: compute a metric, train a second way, draw, know a release or a study.
May import: evaluation, generation, training, models, scaffold, io, data and the ground floor.
"""
