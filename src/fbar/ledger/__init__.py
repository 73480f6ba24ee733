"""The ledger: every finished simulation of a run, in one SQLite file."""

from fbar.ledger.codec import Block, decode, encode, pack, unpack
from fbar.ledger.ledger import Ledger
from fbar.ledger.legs import Leg

__all__ = ["Block", "Ledger", "Leg", "decode", "encode", "pack", "unpack"]
