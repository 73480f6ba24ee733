"""Attacks on fbar: what they find is repaired, and they stay as a campaign that anyone can run."""
