"""Public: what anybody needs to test their own adapters and programs against Turntree."""
