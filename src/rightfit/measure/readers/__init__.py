"""Readers of other programs' results, one module a group of programs. Each reader says of an item
whether it is its kind, and makes run records of it.

A figure whose definition the file does not tell is refused, never guessed.
"""
