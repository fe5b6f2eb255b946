"""Runs converters and transformations over records, compares two configs, and checks tests."""
