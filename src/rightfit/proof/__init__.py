"""Published measurements -> prediction -> score -> the pages on accuracy."""
