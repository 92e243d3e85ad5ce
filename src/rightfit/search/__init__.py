"""The frame of every choice: offers -> estimates -> constraints -> objective -> rank, with reasons
as data. It knows no family of work."""
