"""The secure port: who may ask, and what is answered there."""
