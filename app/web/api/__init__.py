"""What programs talk to: the protocols of native apps, and the server's own."""
