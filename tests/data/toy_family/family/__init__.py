"""Sorting of more data than RAM holds. A toy: it shows what a family of work is made of."""
