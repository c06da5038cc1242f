package updaterserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// maxControlBytes bounds a request to the control listener.
const maxControlBytes = 64 << 10

// Behaviour is what POST /behaviour takes.
type Behaviour struct {
	// Fault is how the server misbehaves; empty ends that.
	Fault string `json:"fault,omitempty"`
	// Updater goes to the updater as it is; absent leaves it alone.
	Updater json.RawMessage `json:"updater,omitempty"`
}

// Control is served on a listener of its own, for tests: GET /stats, POST /behaviour. It has no authentication, so the
// listener must be on loopback.
type Control struct {
	Server *Server
	// Stats gives what /stats shows, as JSON.
	Stats func() any
	// SetBehaviour changes the updater's behaviour.
	SetBehaviour func(json.RawMessage) error
}

// Handler returns the HTTP handler.
func (c *Control) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		content, err := json.MarshalIndent(c.Stats(), "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(content, '\n'))
	})
	mux.HandleFunc("POST /behaviour", func(w http.ResponseWriter, r *http.Request) {
		if err := c.apply(http.MaxBytesReader(w, r.Body, maxControlBytes)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// apply changes the behaviour, all of it or nothing.
func (c *Control) apply(body io.Reader) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("reading the request: %w", err)
	}
	var wanted Behaviour
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil {
		return fmt.Errorf("reading the request: %w; as in {\"fault\": \"Error500\"} or {\"updater\": {\"mode\": \"Stall\"}}", err)
	}
	fault, err := ParseFault(wanted.Fault)
	if err != nil {
		return err
	}
	if len(wanted.Updater) > 0 {
		if err := c.SetBehaviour(wanted.Updater); err != nil {
			return err
		}
	}
	c.Server.SetFault(fault)
	return nil
}

// ListenLoopback listens on an address of the form host:port, and refuses one that other machines could reach.
func ListenLoopback(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address %q: %w; as in 127.0.0.1:8080", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("the address %q is not on loopback; use 127.0.0.1, because everybody who reaches it may change the updater's behaviour", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener, nil
}

// Serve serves the handler on a listener until ctx is cancelled.
func (c *Control) Serve(ctx context.Context, listener net.Listener) error {
	s := &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control listener: %w", err)
	}
	return nil
}
