"""Commands that test and measure stowplan itself."""
