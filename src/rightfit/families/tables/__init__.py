"""Classical machine learning and data preparation."""
