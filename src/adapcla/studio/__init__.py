"""The studio: the verbs of the command line in a browser, for people who do not type commands.

Lives here: the server on this computer with its guard, jobs (each a verb in a process of its own), the folder that is
worked in, the command lines that pages ask for, what is drawn of patients and scores, and thin pages of Streamlit.
May not: compute a result. What a page needs and no verb tells is added to the verb or to a room below.
May import: every room below; Streamlit lives in this room only.
"""
