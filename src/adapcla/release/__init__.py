"""From a table of patients to a synthetic table that may be shared.

Lives here: `synthesize`, the tries of a release, its folder, its summary, its page and its dataset card.
May not: compute a metric, train a second way.
May import: report, pipeline and everything below.
"""
