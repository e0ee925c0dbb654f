package main

import (
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// By how much a line may be ahead of its rate after a pause, and after timers that fired late while data waited.
	burst, late = 2 * time.Millisecond, 100 * time.Millisecond
	// Connections take turns by pieces that the line transmits in this time, but never smaller than a packet.
	turn     = 5 * time.Millisecond
	smallest = 1500
	// As Toxiproxy's own toxics do when one is taken off while its receiver does not read.
	giveUp = 5 * time.Second
)

var (
	lines   sync.Map
	carried = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "link_bandwidth_bytes_total",
		Help: "The bytes that all connections with this link's toxic have carried together.",
	}, []string{"link"})
)

// A line transmits the data of all its connections one after another.
type line struct {
	mutex sync.Mutex
	free  time.Time
}

// reserve returns when the line will have transmitted so many bytes, after all that it accepted earlier. The bytes have
// been there since a moment; the line cannot have begun with them before.
func (l *line) reserve(bytes int, rate int64, since time.Time) time.Time {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.free.Before(since) {
		l.free = since
	}
	l.free = l.free.Add(time.Duration(bytes) * time.Millisecond / time.Duration(rate))
	return l.free
}

// LinkBandwidth limits the sum of all connections of all proxies whose toxic has the same link. Toxiproxy's own
// bandwidth limits each connection by itself. The two directions of a link need two names.
type LinkBandwidth struct {
	// In KB/s, as Toxiproxy's own; 0 for no limit.
	Rate int64  `json:"rate"`
	Link string `json:"link"`
}

func (t *LinkBandwidth) Pipe(stub *toxics.ToxicStub) {
	found, _ := lines.LoadOrStore(t.Link, new(line))
	shared, counted := found.(*line), carried.WithLabelValues(t.Link)
	// When the line was done with the last piece of this connection.
	done := time.Now()
	for {
		chunk, since := next(stub, done)
		if chunk == nil {
			return
		}
		for len(chunk.Data) > 0 {
			piece := t.piece(chunk)
			if t.Rate > 0 {
				done = shared.reserve(len(piece.Data), t.Rate, since)
				since = done
				if !reached(done, stub.Interrupt) {
					// The toxic is being changed or taken off, and nothing may be lost.
					_ = stub.WriteOutput(chunk, giveUp)
					counted.Add(float64(len(chunk.Data)))
					return
				}
			}
			stub.Output <- piece
			counted.Add(float64(len(piece.Data)))
			chunk.Data = chunk.Data[len(piece.Data):]
		}
	}
}

// next returns the next chunk, and since when it has waited; nil when the stream ended or the toxic is interrupted.
func next(stub *toxics.ToxicStub, done time.Time) (*stream.StreamChunk, time.Time) {
	select {
	case chunk := <-stub.Input:
		// It has waited for the piece before it: a timer that fired late is made good.
		if earliest := time.Now().Add(-late); chunk != nil && done.Before(earliest) {
			done = earliest
		}
		return ended(stub, chunk), done
	default:
	}
	select {
	case <-stub.Interrupt:
		return nil, done
	case chunk := <-stub.Input:
		return ended(stub, chunk), time.Now().Add(-burst)
	}
}

// ended closes the stub after the last chunk of a stream, which is nil, and returns the chunk.
func ended(stub *toxics.ToxicStub, chunk *stream.StreamChunk) *stream.StreamChunk {
	if chunk == nil {
		stub.Close()
	}
	return chunk
}

// piece returns the part of a chunk that is transmitted before another connection's turn.
func (t *LinkBandwidth) piece(chunk *stream.StreamChunk) *stream.StreamChunk {
	size := len(chunk.Data)
	if t.Rate > 0 {
		size = min(size, max(smallest, int(t.Rate*turn.Milliseconds())))
	}
	return &stream.StreamChunk{Data: chunk.Data[:size], Timestamp: chunk.Timestamp}
}

// reached returns true at the moment, and false if it was interrupted before.
func reached(moment time.Time, interrupt <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-interrupt:
		return false
	}
}

func init() {
	toxics.Register("link_bandwidth", new(LinkBandwidth))
}
