"""Clouds on this machine: the interfaces of price sources over real HTTP, with the shapes of the
real answers, and with faults."""
