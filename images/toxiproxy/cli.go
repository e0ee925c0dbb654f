//go:build tools

package main

// The client is built beside the server, from the same module: `go mod tidy` keeps what it needs in go.mod and go.sum, so a
// build asks no checksum database.
import _ "github.com/Shopify/toxiproxy/v2/cmd/cli"
