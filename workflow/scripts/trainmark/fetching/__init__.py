"""Files that come from outside: fetched, checked, unpacked; none is trusted before it is whole and right."""
