"""What was changed by hand, since when, and whose each difference is: compare and render. Pure."""
