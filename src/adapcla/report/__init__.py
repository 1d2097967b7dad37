"""Parts of pages: tables, charts, figures, timelines, and the builder that makes pages of them.

Lives here: what release, study and studio show alike. It draws what cohorts, tables and scores hold, computes no result
and raises where one is absent. Only this package imports matplotlib.
"""
