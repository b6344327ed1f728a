"""Who may do what: permissions, delegation, personas, tokens and the audit."""
