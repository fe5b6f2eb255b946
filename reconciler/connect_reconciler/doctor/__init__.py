"""Do a cluster's topics and its REST API say the same, and is everything there as it must be?"""
