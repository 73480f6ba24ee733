"""Recorded runs as files: every finished simulation in one SQLite file, the settings, and what damage leaves of them.

`Ledger` writes and `LedgerReader` reads; only `fbar.running`, studies and the command line import them.
"""

from fbar.ledger.codec import Block, decode, encode, pack, unpack
from fbar.ledger.ledger import Ledger
from fbar.ledger.legs import Leg
from fbar.ledger.reader import LedgerReader

__all__ = ["Block", "Ledger", "LedgerReader", "Leg", "decode", "encode", "pack", "unpack"]
