//go:build linux

package site

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/windlass-dev/windlass/lab/provider/loadbalancer"
)

// maxWait bounds a request that waits for a change.
const maxWait = 30 * time.Second

// remoteError is an error as it travels over the socket.
type remoteError struct {
	Message string
	// NotFound is no host, no load balancer, or no file.
	NotFound bool
}

// Serve answers clients until the listener is closed.
func (s *Site) Serve(listener net.Listener) error {
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: maxWait}
	return server.Serve(listener)
}

func (s *Site) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request, id string) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := f(r, r.PathValue("id"))
			respond(w, answer, err)
		})
	}
	handle("GET /hosts", func(*http.Request, string) (any, error) { return s.Hosts(), nil })
	handle("GET /hosts/{id}", func(_ *http.Request, id string) (any, error) { return s.Host(id) })
	handle("PUT /hosts/{id}", func(r *http.Request, id string) (any, error) {
		return withBody(r, func(spec Host) (any, error) { return s.Ensure(id, spec) })
	})
	handle("PUT /hosts/{id}/condition", func(r *http.Request, id string) (any, error) {
		return withBody(r, func(c Condition) (any, error) { return s.SetCondition(id, c) })
	})
	handle("DELETE /hosts/{id}", func(_ *http.Request, id string) (any, error) { return struct{}{}, s.Delete(id) })
	handle("GET /hosts/{id}/file", func(r *http.Request, id string) (any, error) { return s.Read(id, r.URL.Query().Get("path")) })
	handle("GET /hosts/{id}/login", func(_ *http.Request, id string) (any, error) { return s.Login(id) })
	handle("POST /hosts/{id}/run", func(r *http.Request, id string) (any, error) {
		return withBody(r, func(script string) (any, error) { return s.Run(r.Context(), id, script) })
	})
	handle("GET /balancers/{id}", func(_ *http.Request, id string) (any, error) {
		if !s.HasBalancer(id) {
			return nil, errNotFound
		}
		return struct{}{}, nil
	})
	handle("PUT /balancers/{id}", func(r *http.Request, id string) (any, error) {
		return withBody(r, func(b loadbalancer.Backends) (any, error) { return s.EnsureBalancer(id, b) })
	})
	handle("DELETE /balancers/{id}", func(_ *http.Request, id string) (any, error) { return struct{}{}, s.DeleteBalancer(id) })
	handle("GET /changes", func(r *http.Request, _ string) (any, error) {
		after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxWait)
		defer cancel()
		return s.Wait(ctx, after), nil
	})
	return mux
}

func withBody[T any](r *http.Request, f func(T) (any, error)) (any, error) {
	var body T
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	return f(body)
}

func respond(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		missing := errors.Is(err, errNotFound) || errors.Is(err, fs.ErrNotExist)
		w.WriteHeader(http.StatusInternalServerError)
		answer = remoteError{Message: err.Error(), NotFound: missing}
	}
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(answer)
}
