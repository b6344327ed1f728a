"""What a model is asked: prompt, context window, messages and providers."""
