"""What a result is made into: lines to print, JSON, and the objects of other packages."""
