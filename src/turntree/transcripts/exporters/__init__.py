"""Write a thread in another format, one module per format."""
