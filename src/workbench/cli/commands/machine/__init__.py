"""Commands about this machine, whichever store they are typed in."""
