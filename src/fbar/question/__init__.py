"""What is asked: a prior, a simulator, data, a distance, and the targets f whose posterior expectations are wanted.

Every room above may import from here; nothing here chooses where to simulate or estimates anything.
"""
