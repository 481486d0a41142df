this is not included
