"""Big tables in pieces, here, in processes or on a Ray cluster: the same numbers wherever they are
worked out, and what is done stays done."""
