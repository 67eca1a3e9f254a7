"""A cluster's server side inside this process: the store, and a client that needs no network to reach it."""
