"""Order of steps of a request; knows the domain and the Backend protocol, no HTTP library."""
