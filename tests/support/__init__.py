"""What tests of several packages share: a broker, a real Connect worker, waiting."""
