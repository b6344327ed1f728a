"""The kinds of programs that come with Turntree, one module each."""
