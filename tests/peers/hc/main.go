// Command hc is the bench's peer of drain-sidecar: the health endpoints of a drain state machine on Go's net/http, as
// a team would write it in an afternoon. It is measured against, never shipped.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

type machine struct {
	mu    sync.RWMutex
	state string
	since time.Time
}

func (m *machine) read() (string, time.Time) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state, m.since
}

func (m *machine) move(to string, from ...string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range from {
		if m.state == f {
			m.state, m.since = to, time.Now()
			return to, true
		}
	}
	return m.state, false
}

func (m *machine) health(good string, bad string, code int, states ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		state, _ := m.read()
		tag := `"` + state + `"`
		w.Header().Set("Cache-Control", "max-age=1")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		for _, s := range states {
			if s == state {
				fmt.Fprint(w, good)
				return
			}
		}
		w.WriteHeader(code)
		fmt.Fprint(w, bad)
	}
}

func (m *machine) command(to string, from ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		state, ok := m.move(to, from...)
		if !ok {
			w.WriteHeader(http.StatusConflict)
		}
		json.NewEncoder(w).Encode(map[string]string{"state": state})
	}
}

func main() {
	m := &machine{state: "OPEN", since: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("/health_check.html", m.health("OK", "DRAIN", 503, "OPEN", "DRAINING"))
	mux.HandleFunc("/health", m.health("OK", "NOT READY", 503, "OPEN", "DRAINING", "CLOSING"))
	mux.HandleFunc("/live", m.health("OK", "FAULT", 500, "OPEN", "DRAINING", "CLOSING", "CLOSED"))
	mux.HandleFunc("/drain", m.command("DRAINING", "OPEN"))
	mux.HandleFunc("/close-lb", m.command("CLOSING", "DRAINING"))
	mux.HandleFunc("/close", m.command("CLOSED", "CLOSING"))
	mux.HandleFunc("/reopen", m.command("OPEN", "DRAINING", "CLOSING"))
	mux.HandleFunc("/fault", m.command("FAULT", "OPEN", "DRAINING", "CLOSING", "CLOSED"))
	mux.HandleFunc("/drain/status", func(w http.ResponseWriter, r *http.Request) {
		state, since := m.read()
		json.NewEncoder(w).Encode(map[string]any{"ready": state != "CLOSED", "state": state, "since": since})
	})
	addr := os.Getenv("HC_ADDR")
	if addr == "" {
		addr = ":18180"
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, listener.Addr())
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 60 * time.Second}
	if err := server.Serve(listener); err != nil {
		os.Exit(1)
	}
}
