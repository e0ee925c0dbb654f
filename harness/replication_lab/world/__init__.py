"""The only place with subprocesses, sockets, SQL, HTTP, files and waiting."""
