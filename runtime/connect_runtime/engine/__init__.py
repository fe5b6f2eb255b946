"""JVMs that run Java plugins with Apache's own worker classes, and the protocol to them."""
