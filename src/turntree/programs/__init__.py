"""The kinds of program, a module each: lifecycle, config, events, and what invoking one does."""
