"""Compares a cluster's topics with its REST API, and checks that both are in order."""
