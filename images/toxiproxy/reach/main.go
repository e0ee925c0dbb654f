// Reach lets a harness on another machine use the ports that the engine publishes on its own machine's loopback.
//
//	reach             says that it runs, and ends when its standard input does: the container that commands are run in
//	reach HOST:PORT   connects standard input and output with an address
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if len(os.Args) == 1 {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	connection, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go func() {
		io.Copy(connection, os.Stdin)
		connection.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(os.Stdout, connection)
}
