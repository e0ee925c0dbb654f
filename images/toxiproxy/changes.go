package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The toxics of this image that its authors' has not.
var own = []string{"exact_latency", "link_bandwidth"}

// The most changes that are kept. Their number goes on.
const kept = 10000

// A change is a request that may have changed a proxy or a toxic; times are seconds since this process began.
type change struct {
	At     float64 `json:"at"`
	Agent  string  `json:"agent"`
	Method string  `json:"method"`
	Path   string  `json:"path"`
}

// Changes lists every change, so that nobody can take a toxic off and put it back unseen: GET /changes?since=N returns
// those after the first N, with the number of all, the time now, when this process began, and the toxics of this image.
type changes struct {
	mutex sync.Mutex
	began time.Time
	count int
	last  []change
}

func (c *changes) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			c.add(r)
		case r.URL.Path == "/changes":
			c.show(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *changes) add(r *http.Request) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
	c.last = append(c.last, change{time.Since(c.began).Seconds(), r.UserAgent(), r.Method, r.URL.Path})
	if len(c.last) > kept {
		c.last = c.last[len(c.last)-kept:]
	}
}

func (c *changes) show(w http.ResponseWriter, r *http.Request) {
	since, _ := strconv.Atoi(r.URL.Query().Get("since"))
	c.mutex.Lock()
	defer c.mutex.Unlock()
	after := min(max(since-(c.count-len(c.last)), 0), len(c.last))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"began":   c.began.UnixNano(),
		"now":     time.Since(c.began).Seconds(),
		"count":   c.count,
		"changes": append([]change{}, c.last[after:]...),
		"toxics":  own,
	})
}
