"""Read other tools' transcripts, one package per tool."""
