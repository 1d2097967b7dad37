"""The studio: the verbs of the command line in a browser, for people who do not type commands.

Lives here: the server on this computer with its guard, jobs (each a verb in a process of its own), the working folder,
and one thin Streamlit page for each screen. It computes no result: what a page needs is printed by a verb or drawn by
`report`. Only this package imports Streamlit.
"""
