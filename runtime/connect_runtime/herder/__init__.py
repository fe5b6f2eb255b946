"""Decides what runs: leader election, the herder's one thread, fencing, offsets."""
