"""The tools with which an agent asks the past, by the Model Context Protocol."""
