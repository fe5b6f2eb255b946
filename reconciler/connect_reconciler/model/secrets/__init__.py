"""Which values are secret, and how they are compared and stored without being shown. Pure."""
