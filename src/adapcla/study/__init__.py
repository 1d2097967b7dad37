"""Studies: methods compared fairly on one cohort, their tables, their page, and analyses of why a method works.

Lives here: the plan of an experiment (one TOML) that says which steps are still to be done, the results of its fits,
the claims and their verdicts, the page, and `analysis`.
May not: compute a metric, train a second way.
May import: release, report, pipeline and everything below.
"""
