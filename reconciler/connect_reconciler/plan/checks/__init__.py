"""What makes a plan impossible, or needs a word: each question in a file of its own. Pure."""
