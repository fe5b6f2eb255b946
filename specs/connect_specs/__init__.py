"""What a user declares, read into values."""
