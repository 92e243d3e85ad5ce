"""Rows of the measured tables read as the typed cases that estimate takes; nothing else
reads words of rows."""
