// Toxiproxy's server with two more toxics, link_bandwidth and exact_latency, and a list of all changes. The options are those of its authors' server that the lab uses.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/collectors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// The longest request. Toxiproxy itself gives up one after 25 s.
const limit = 30 * time.Second

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
	listed := &changes{began: time.Now()}
	api := &http.Server{
		Addr:         net.JoinHostPort(*host, *port),
		Handler:      listed.around(server.Routes()),
		ReadTimeout:  limit,
		WriteTimeout: limit,
	}
	failed := make(chan error, 1)
	go func() { failed <- api.ListenAndServe() }()

	// The first process of a container gets no signal that it does not ask for.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	case <-stop:
		_ = api.Close()
	}
}
