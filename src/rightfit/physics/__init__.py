"""How hardware and software behave: pure functions over arrays, one module a subject.

Arrays are float64 of shape (N,), or broadcast with it, where no other shape is written beside the
unit. A docstring names each plain argument as `argument` [unit] and the result as -> [unit];
arguments that are structs carry the units of their fields (`columns.column`). [1] is a ratio or a
count without a noun, [flag] 0 or 1, [code] a member of an enumeration, [any] whatever the caller
has. The line "Source:" of a function, or of its module for all of them, says where the equation
comes from; "Known error:" where it is known to be wrong. tests/physics/test_docstrings.py holds
every function to it.
"""
