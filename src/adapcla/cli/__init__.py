"""The command line: `main`, and its verbs, one file for each.

Lives here: options, checks of usage, printing. Heavy imports stay inside the functions.
May not: compute anything that Python users would want too; that belongs in a room below.
May import: every room.
"""
