"""The graph of turns: edges, causes and its layout as a picture."""
