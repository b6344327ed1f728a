"""Login with an identity provider, by OpenID Connect: the authorization code flow with PKCE."""
