"""Load tests of an endpoint that speaks OpenAI's API: http, stream (one request), endpoint (what is
there), level (one load), capacity (the search), result (the record)."""
