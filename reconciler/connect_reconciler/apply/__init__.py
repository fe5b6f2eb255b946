"""Carries out a plan: checks it, journals each action, and can be killed and run again."""
