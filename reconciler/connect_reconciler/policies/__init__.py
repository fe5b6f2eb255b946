"""What a project allows its plans to do."""
