"""One module a group of commands: parse, call rightfit.api, render."""
