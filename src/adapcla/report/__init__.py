"""Reports: tables, figures and the page.

Lives here: the one plot style, the figures, the tables and the page.
May not: compute a result; it draws what cohorts, tables and scores say, and raises where one is absent.
May import: everything below; matplotlib lives in this room only.
"""
