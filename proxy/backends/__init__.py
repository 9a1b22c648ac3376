"""Edge: databases over HTTP or in process."""
