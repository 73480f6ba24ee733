"""The problems of the catalogue, one model in each file: simulator, prior, data and how its truth is computed.

Only the catalogue imports from here; users load problems by name.
"""
