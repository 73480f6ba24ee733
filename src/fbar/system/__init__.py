"""The machine underneath: files, locks, processes, signals, the terminal, and checks of what is read from them.

Any room may import from here; nothing here knows of inference.
"""
