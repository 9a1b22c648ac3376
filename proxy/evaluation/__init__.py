"""Questions with right answers: reading them, scoring what came instead, summing up."""
