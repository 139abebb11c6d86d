"""One module for each dataset format; a module whose name begins with an underscore is a helper."""
