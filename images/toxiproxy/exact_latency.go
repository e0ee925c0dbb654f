package main

import (
	"math/rand/v2"
	"os"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"golang.org/x/sys/unix"
)

// ExactLatency delays data as Toxiproxy's own latency does, in microseconds instead of milliseconds. Toxiproxy's timers
// are those of Go, which fire up to a millisecond late in an idle program; the kernel's timers are not.
type ExactLatency struct {
	Latency int64 `json:"latency_us"`
	Jitter  int64 `json:"jitter_us"`
}

// GetBufferSize returns how many pieces of data may be on their way at once, as with Toxiproxy's own latency.
func (t *ExactLatency) GetBufferSize() int { return 1024 }

func (t *ExactLatency) Pipe(stub *toxics.ToxicStub) {
	alarm := newAlarm()
	defer alarm.close()
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if ended(stub, chunk) == nil {
				return
			}
			if !t.delay(chunk, alarm, stub) {
				return
			}
		}
	}
}

// delay passes a chunk on when it is due; at once, and false, when the toxic is being changed or taken off.
func (t *ExactLatency) delay(chunk *stream.StreamChunk, alarm *alarm, stub *toxics.ToxicStub) bool {
	micros := t.Latency
	if t.Jitter > 0 {
		micros += rand.Int64N(2*t.Jitter) - t.Jitter
	}
	chunk.Timestamp = chunk.Timestamp.Add(time.Duration(micros) * time.Microsecond)
	waited := alarm.reached(chunk.Timestamp, stub.Interrupt)
	stub.Output <- chunk
	return waited
}

// An alarm is a timer of the kernel that its goroutine waits for as for data of a connection.
type alarm struct {
	timer int
	file  *os.File
	fired chan struct{}
}

// newAlarm returns nil where the kernel gives no further timer; Go's timers are used then.
func newAlarm() *alarm {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	a := &alarm{timer, os.NewFile(uintptr(timer), "timer"), make(chan struct{}, 1)}
	go a.watch()
	return a
}

func (a *alarm) watch() {
	expirations := make([]byte, 8)
	for {
		if _, err := a.file.Read(expirations); err != nil {
			return
		}
		a.fired <- struct{}{}
	}
}

// reached returns true at the moment, and false if it was interrupted before.
func (a *alarm) reached(moment time.Time, interrupt <-chan struct{}) bool {
	left := time.Until(moment)
	if left <= 0 {
		return true
	}
	if a == nil || !a.set(left) {
		return reached(moment, interrupt)
	}
	select {
	case <-a.fired:
		return true
	case <-interrupt:
		return false
	}
}

func (a *alarm) set(left time.Duration) bool {
	return unix.TimerfdSettime(a.timer, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}, nil) == nil
}

func (a *alarm) close() {
	if a != nil {
		_ = a.file.Close()
	}
}

func init() {
	toxics.Register("exact_latency", new(ExactLatency))
}
