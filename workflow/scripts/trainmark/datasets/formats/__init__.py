"""One module for each dataset format; modules whose names begin with an underscore are helpers."""
