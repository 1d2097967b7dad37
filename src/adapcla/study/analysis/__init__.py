"""Why the annealing works, or does not: probes, kernels, the bound and cases.

Lives here: what is measured along training and in fitted generators, as tidy tables, with an honest verdict beside.
May not: draw a figure, run a second training loop, or hide a number against the method.
May import: evaluation, generation, training, models, scaffold, io, data and the package root.
"""
