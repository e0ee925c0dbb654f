// Toxiproxy's server with one more toxic, link_bandwidth. The options are those of its authors' server that the lab uses.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/collectors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

func main() {
	host := flag.String("host", "localhost", "address of the API")
	port := flag.String("port", "8474", "port of the API")
	config := flag.String("config", "", "JSON file of the proxies to begin with")
	metrics := flag.Bool("proxy-metrics", false, "count connections and bytes, at /metrics of the API")
	flag.Parse()

	logger := zerolog.New(os.Stdout).With().Timestamp().Logger()
	logger.Info().Str("version", toxiproxy.Version).Msg("Starting Toxiproxy with link_bandwidth")
	registry := prometheus.NewRegistry()
	registry.MustRegister(carried)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(registry), logger)
	if *metrics {
		server.Metrics.ProxyMetrics = collectors.NewProxyMetricCollectors()
	}
	if *config != "" {
		server.PopulateConfig(*config)
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Listen(net.JoinHostPort(*host, *port)) }()

	// The first process of a container gets no signal that it does not ask for.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	case <-stop:
		_ = server.Shutdown()
	}
}
