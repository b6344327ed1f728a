"""Commands that talk to models: chat, send, replay, worker."""
