"""The checks that make a plan impossible or doubtful: each question in a file of its own. Pure."""
