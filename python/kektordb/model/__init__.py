"""Values: frozen, without I/O. Everything above may import them; they import nothing but each other and `errors`."""
