"""The verbs of the command line, one file for each verb.

Lives here: options, checks of usage, printing. Heavy imports stay inside the functions.
May not: compute anything that Python users would want too; that belongs in a room below.
May import: every room.
"""
