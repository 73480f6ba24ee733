"""The figures, a module each: a data record with the numbers, and how it is drawn.

`fbar.plot` imports the records and gives each a function of its own name; nothing else imports from here.
"""
