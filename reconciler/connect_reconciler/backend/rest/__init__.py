"""Connect's REST API: requests, retries, answers and their errors."""
