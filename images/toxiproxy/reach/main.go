// Reach is the lab's hand on an engine's machine that is not the harness's own.
//
//	reach             for each line of paths on standard input, prints the files of /proc and /sys that they match
//	reach HOST:PORT   connects standard input and output with an address
//
// A path may be a pattern. PATTERN=TEXT are those files that contain the text. A folder has the names of its entries.
// An answer is one line of JSON, {path: text}, and an empty line. The program ends with its standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) > 1 {
		connect(os.Args[1])
		return
	}
	questions := bufio.NewScanner(os.Stdin)
	questions.Buffer(nil, 1<<20)
	for questions.Scan() {
		answer, _ := json.Marshal(files(strings.Fields(questions.Text())))
		fmt.Printf("%s\n\n", answer)
	}
}

func connect(address string) {
	connection, err := net.Dial("tcp", address)
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

func files(patterns []string) map[string]string {
	found := map[string]string{}
	for _, each := range patterns {
		pattern, wanted, _ := strings.Cut(each, "=")
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			// A process may have ended meanwhile.
			if text, err := read(path); err == nil && strings.Contains(text, wanted) {
				found[path] = text
			}
		}
	}
	return found
}

func read(path string) (string, error) {
	if entries, err := os.ReadDir(path); err == nil {
		names := make([]string, len(entries))
		for i, each := range entries {
			names[i] = each.Name()
		}
		return strings.Join(names, "\n"), nil
	}
	text, err := os.ReadFile(path)
	return string(text), err
}
