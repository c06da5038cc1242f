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
	"os"
	"strings"
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

// unixPrefix starts an address that is a path. Such a socket is reached from another network namespace, too.
const unixPrefix = "unix:"

// ListenLocal listens on an address of the form host:port or unix:PATH, and refuses one that other machines could reach.
func ListenLocal(ctx context.Context, address string) (net.Listener, error) {
	network, local := "tcp", address
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		if err := removeSocket(path); err != nil {
			return nil, err
		}
		network, local = "unix", path
	} else if err := checkLoopback(address); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, local)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	if network == "unix" {
		if err := os.Chmod(local, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("listening on %s: %w", address, err), listener.Close())
		}
	}
	return listener, nil
}

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address %q: %w; as in 127.0.0.1:8080 or unix:/run/updater.sock", address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("the address %q is not on loopback. Fix: use 127.0.0.1, because everybody who reaches it may change the updater's behaviour", address)
	}
	return nil
}

// removeSocket removes the socket that a process which was killed has left.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking at %s: %w", path, err)
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there and is no socket. Fix: choose another path", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	return nil
}

// Serve serves the handler on a listener until ctx is cancelled.
func (c *Control) Serve(ctx context.Context, listener net.Listener) error {
	return ServeControl(ctx, listener, c.Handler())
}

// ServeControl serves a handler of small requests of people on a listener until ctx is cancelled.
func ServeControl(ctx context.Context, listener net.Listener, handler http.Handler) error {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control listener: %w", err)
	}
	return nil
}
