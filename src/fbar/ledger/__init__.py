"""The ledger: every finished simulation of a run, in one SQLite file. `Ledger` writes it, `LedgerReader` reads it."""

from fbar.ledger.codec import Block, decode, encode, pack, unpack
from fbar.ledger.ledger import Ledger
from fbar.ledger.legs import Leg
from fbar.ledger.reader import LedgerReader

__all__ = ["Block", "Ledger", "LedgerReader", "Leg", "decode", "encode", "pack", "unpack"]
