"""What things are, and which changes are lawful.

Architecture invariant: nothing here does I/O, reads a clock, draws a random number or
awaits. Every function gives the same answer for the same input, so every rule of the
product can be tested without a database or a model.
"""
