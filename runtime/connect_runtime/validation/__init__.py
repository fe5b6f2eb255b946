"""Validation of connector configs: Connect's own keys, the connector's, and what they say together.

Error texts are Connect's, so that users see the same from either runtime.
"""
