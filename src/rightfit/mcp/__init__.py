"""The MCP server: the library as tools of an assistant. `server.run()` serves standard input and
output; needs the extra mcp."""
