"""One verb a file: its options, its help, and in which order it asks the rest."""
