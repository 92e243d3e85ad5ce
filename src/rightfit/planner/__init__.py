"""The verbs, a module each: plan, given (estimate and why), field, value. They know
no family of work."""
