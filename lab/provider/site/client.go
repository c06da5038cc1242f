package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/windlass-dev/windlass/lab/provider/loadbalancer"
)

// Client sends requests to a site. It is safe for concurrent use. Errors about something that is not there
// are [fs.ErrNotExist].
type Client struct{ http *http.Client }

// NewClient returns a client of the site that listens on a socket.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		// The address of a socket is short, and its path may be long.
		folder, err := os.Open(filepath.Dir(socket))
		if err != nil {
			return nil, err
		}
		defer func() { _ = folder.Close() }()
		address := fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), filepath.Base(socket))
		return (&net.Dialer{}).DialContext(ctx, "unix", address)
	}
	return &Client{http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Ensure makes and boots a host, unless there is one with the id.
func (c *Client) Ensure(ctx context.Context, id string, spec Host) (HostStatus, error) {
	return send[HostStatus](ctx, c, http.MethodPut, hostPath(id), spec)
}

// Host returns a host.
func (c *Client) Host(ctx context.Context, id string) (HostStatus, error) {
	return send[HostStatus](ctx, c, http.MethodGet, hostPath(id), nil)
}

// Hosts returns all hosts, sorted by id.
func (c *Client) Hosts(ctx context.Context) ([]HostStatus, error) {
	return send[[]HostStatus](ctx, c, http.MethodGet, "/hosts", nil)
}

// SetCondition makes a host suffer what the condition says, and nothing else.
func (c *Client) SetCondition(ctx context.Context, id string, desired Condition) (HostStatus, error) {
	return send[HostStatus](ctx, c, http.MethodPut, hostPath(id)+"/condition", desired)
}

// Delete shuts a host down in order, and removes it with its disk. One that is not there is no error.
func (c *Client) Delete(ctx context.Context, id string) error {
	_, err := send[struct{}](ctx, c, http.MethodDelete, hostPath(id), nil)
	return err
}

// Read returns a file of a host's disk.
func (c *Client) Read(ctx context.Context, id, path string) ([]byte, error) {
	return send[[]byte](ctx, c, http.MethodGet, hostPath(id)+"/file?path="+url.QueryEscape(path), nil)
}

// Login returns the keys of a host's sshd.
func (c *Client) Login(ctx context.Context, id string) (Login, error) {
	return send[Login](ctx, c, http.MethodGet, hostPath(id)+"/login", nil)
}

// Run runs a bash script as root in a host.
func (c *Client) Run(ctx context.Context, id, script string) (Script, error) {
	return send[Script](ctx, c, http.MethodPost, hostPath(id)+"/run", script)
}

// HasBalancer reports whether there is a load balancer with the id.
func (c *Client) HasBalancer(ctx context.Context, id string) (bool, error) {
	_, err := send[struct{}](ctx, c, http.MethodGet, balancerPath(id), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// EnsureBalancer makes a load balancer, unless there is one with the id, and sets its backends.
func (c *Client) EnsureBalancer(ctx context.Context, id string, backends loadbalancer.Backends) (BalancerStatus, error) {
	return send[BalancerStatus](ctx, c, http.MethodPut, balancerPath(id), backends)
}

// DeleteBalancer removes a load balancer, and resets its connections. One that is not there is no error.
func (c *Client) DeleteBalancer(ctx context.Context, id string) error {
	_, err := send[struct{}](ctx, c, http.MethodDelete, balancerPath(id), nil)
	return err
}

// Wait returns the site's revision once it is not after any more. It may return after, too: call it again.
func (c *Client) Wait(ctx context.Context, after int64) (int64, error) {
	return send[int64](ctx, c, http.MethodGet, "/changes?after="+strconv.FormatInt(after, 10), nil)
}

func hostPath(id string) string     { return "/hosts/" + url.PathEscape(id) }
func balancerPath(id string) string { return "/balancers/" + url.PathEscape(id) }

func send[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encoding a request to the site: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://site"+path, bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return out, fmt.Errorf("asking the site: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode != http.StatusOK {
		var failed remoteError
		if err := decoder.Decode(&failed); err != nil {
			return out, fmt.Errorf("the site answered %s", response.Status)
		}
		if failed.NotFound {
			return out, fmt.Errorf("site: %s: %w", failed.Message, fs.ErrNotExist)
		}
		return out, fmt.Errorf("site: %s", failed.Message)
	}
	if err := decoder.Decode(&out); err != nil {
		return out, fmt.Errorf("reading the site's answer: %w", err)
	}
	return out, nil
}
