"""Validates connector configs: Connect's own keys, the connector's, and rules across keys.

Error texts are Connect's, so that users see the same from either runtime.
"""
