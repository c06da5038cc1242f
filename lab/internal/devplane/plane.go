package devplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Plane is a handle to a plane that runs, or ran. It is safe for concurrent use.
type Plane struct {
	layout layout
	http   *http.Client
	rest   *rest.Config
	// dir keeps the state directory open for the control socket's address.
	dir *os.File
	// supervisor is known even when the state directory is not there any more.
	supervisor processID
	// gone is closed when the supervisor has ended; nil for a plane that another process started.
	gone <-chan struct{}
	// lifeline, while open, keeps an attached plane alive.
	lifeline *os.File
}

// Connect returns a handle to the plane that runs on stateDir, or a [NotRunningError].
func Connect(ctx context.Context, stateDir string) (*Plane, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("making %q absolute: %w", stateDir, err)
	}
	l := layout{dir: dir}
	r, err := readRecord(l)
	if err != nil {
		return nil, err
	}
	if !r.Supervisor.alive() {
		return nil, &NotRunningError{StateDir: dir, Stale: r.Supervisor.PID != 0}
	}
	if err := secureState(l, os.Geteuid()); err != nil {
		return nil, err
	}
	p, err := newPlane(l, r.Supervisor)
	if err != nil {
		return nil, err
	}
	if _, err := p.Status(ctx); err != nil {
		return nil, errors.Join(err, p.dir.Close())
	}
	return p, nil
}

func newPlane(l layout, supervisor processID) (*Plane, error) {
	dir, err := os.Open(l.dir)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", controlAddress(dir))
	}
	return &Plane{
		layout: l, dir: dir, supervisor: supervisor,
		http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}, nil
}

// loadKubeconfig makes RESTConfig answer; the supervisor has written the kubeconfig before its phase is Running.
func (p *Plane) loadKubeconfig() error {
	config, err := clientcmd.BuildConfigFromFlags("", p.layout.kubeconfig())
	if err != nil {
		return fmt.Errorf("loading the plane's kubeconfig: %w", err)
	}
	p.rest = config
	return nil
}

// RESTConfig returns a new configuration for clients in the user's namespace, with full rights. It is nil on a plane that
// Connect found before it was up.
func (p *Plane) RESTConfig() *rest.Config {
	if p.rest == nil {
		if err := p.loadKubeconfig(); err != nil {
			return nil
		}
	}
	return rest.CopyConfig(p.rest)
}

// KubeconfigPath is the file with the same content as RESTConfig.
func (p *Plane) KubeconfigPath() string { return p.layout.kubeconfig() }

// CABundle returns the CA (PEM) of all serving certificates, for an ExtensionConfig or a webhook configuration.
func (p *Plane) CABundle() ([]byte, error) {
	ca, err := os.ReadFile(p.layout.ca())
	if err != nil {
		return nil, fmt.Errorf("reading the plane's CA: %w", err)
	}
	return ca, nil
}

// Status asks the supervisor. It fails with a [NotRunningError] when that has ended.
func (p *Plane) Status(ctx context.Context) (Status, error) {
	return ask[Status](ctx, p, http.MethodGet, "/v1/status", nil)
}

// Watch waits until the status has a revision above after, or half a minute, and returns it. To follow a plane, call it in
// a loop with the revision it returned; changes in quick succession are seen as one.
func (p *Plane) Watch(ctx context.Context, after int64) (Status, error) {
	return ask[Status](ctx, p, http.MethodGet, "/v1/status?after="+strconv.FormatInt(after, 10), nil)
}

// Wait returns when something is wrong with the plane: a [ChildError] when a child has ended that is not restarted, a
// [NotRunningError] when the supervisor has ended, ctx's error when ctx ends.
func (p *Plane) Wait(ctx context.Context) error {
	after := int64(-1)
	for {
		status, err := p.Watch(ctx, after)
		if err != nil {
			return err
		}
		if status.Phase == PhaseFailed {
			return status.err()
		}
		after = status.Revision
	}
}

// err is the failure that a status tells of.
func (s Status) err() error {
	for _, child := range s.Children {
		if child.crashed() {
			return &ChildError{Name: child.Name, Exit: *child.LastExit, LogFile: child.LogFile}
		}
	}
	return errors.New(s.Message)
}

func (c ChildStatus) crashed() bool {
	return c.State == ChildExited && c.LastExit != nil && !c.LastExit.Expected
}

// AddChild starts a further child and returns once it is ready. When it does not become ready, it stays among the children
// (StartChild tries again) and the error says why.
func (p *Plane) AddChild(ctx context.Context, child Child) (ChildStatus, error) {
	if err := child.validate(); err != nil {
		return ChildStatus{}, err
	}
	return ask[ChildStatus](ctx, p, http.MethodPost, "/v1/children", child)
}

// StartChild starts a child that does not run and returns once it is ready. One that runs is left alone.
func (p *Plane) StartChild(ctx context.Context, name string) (ChildStatus, error) {
	return p.operate(ctx, name, "start")
}

// StopChild ends a child: SIGTERM, and after its StopTimeout SIGKILL. It returns when the process has ended. The child is
// not restarted, whatever its policy.
func (p *Plane) StopChild(ctx context.Context, name string) (ChildStatus, error) {
	return p.operate(ctx, name, "stop")
}

// RemoveChild stops a child that was added and forgets it: its name is free again, its log stays. The plane's own parts cannot be
// removed.
func (p *Plane) RemoveChild(ctx context.Context, name string) (ChildStatus, error) {
	return p.operate(ctx, name, "remove")
}

// KillChild ends a child with SIGKILL and returns when the process has ended. What follows is the same as after a crash, except that
// the plane does not count as failed: with RestartAlways it is started again, otherwise it stays down until StartChild.
func (p *Plane) KillChild(ctx context.Context, name string) (ChildStatus, error) {
	return p.operate(ctx, name, "kill")
}

func (p *Plane) operate(ctx context.Context, name, verb string) (ChildStatus, error) {
	return ask[ChildStatus](ctx, p, http.MethodPost, "/v1/children/"+url.PathEscape(name)+"/"+verb, nil)
}

// HTTPClient returns a client of the plane's own addresses. It does not keep connections.
func (p *Plane) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: p.DialContext, DisableKeepAlives: true}}
}

// DialContext connects to an address inside the plane's namespace. The network must be "tcp".
func (p *Plane) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fmt.Errorf("dialing %s inside the plane: network %q is not supported, only tcp", address, network)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", controlAddress(p.dir))
	if err != nil {
		return nil, p.wrap(err)
	}
	tunnel, err := openTunnel(ctx, conn, address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("dialing %s inside the plane: %w", address, err), conn.Close())
	}
	return tunnel, nil
}

// Stop ends the plane, in order, and returns when no process of it is left. The state directory stays, for its logs; see
// [RemoveState]. A plane that has ended already is no error, and neither is a state directory that was removed meanwhile. When ctx
// ends first, or the end takes longer than 15 seconds, the supervisor is killed, and the rest with it.
func (p *Plane) Stop(ctx context.Context) error {
	if err := p.askToStop(ctx); err != nil {
		return err
	}
	if p.supervisor.alive() {
		if err := signalSupervisor(p.supervisor, syscall.SIGKILL); err != nil {
			return err
		}
	}
	// Not with ctx, which may have ended: the kernel needs a moment, and no more than that.
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	if !p.awaitEnd(killCtx) {
		return fmt.Errorf("the supervisor of %s (process %d) has not ended", p.layout.dir, p.supervisor.PID)
	}
	return nil
}

// askToStop asks in every way that there is, and gives the supervisor its time.
func (p *Plane) askToStop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if p.supervisor.alive() {
		// There is no answer: the connection ends with the supervisor, or cannot be made because the socket is gone.
		_, _, _ = p.exchange(ctx, http.MethodPost, "/v1/stop", nil)
	}
	attached := false
	if p.lifeline != nil {
		err := p.lifeline.Close()
		attached = err == nil
		if err := ignoreClosed(err); err != nil {
			return fmt.Errorf("closing the lifeline: %w", err)
		}
	}
	if !attached && ctx.Err() == nil && p.supervisor.alive() {
		if err := signalSupervisor(p.supervisor, syscall.SIGTERM); err != nil {
			return err
		}
	}
	p.awaitEnd(ctx)
	return nil
}

func signalSupervisor(id processID, sig syscall.Signal) error {
	if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending the supervisor: %w", err)
	}
	return nil
}

// awaitEnd waits until the supervisor has ended and its descriptors with it, and reports whether that was before the end of ctx.
func (p *Plane) awaitEnd(ctx context.Context) bool {
	if p.gone != nil {
		select {
		case <-p.gone:
			return true
		case <-ctx.Done():
			return false
		}
	}
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	// Its main thread may have ended while another one still holds the lock.
	for p.supervisor.alive() || !unlocked(p.layout) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

const (
	// stopGrace is how long a plane may take to end in order.
	stopGrace = 15 * time.Second
	// endingGrace is how long a process may take from closing its sockets to its end.
	endingGrace = time.Second
	pollPeriod  = 5 * time.Millisecond
	// killGrace is how long the kernel may take to end a process that was killed or is exiting.
	killGrace = 5 * time.Second
)

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// remoteError is an error as it travels over the control socket.
type remoteError struct {
	Message string      `json:"message"`
	Child   *ChildError `json:"child,omitempty"`
}

// ask sends one request to the supervisor and returns its answer.
func ask[T any](ctx context.Context, p *Plane, method, path string, in any) (T, error) {
	var out T
	err := p.call(ctx, method, path, in, &out)
	return out, err
}

// call sends one request to the supervisor.
func (p *Plane) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request to the supervisor: %w", err)
		}
		body = data
	}
	code, data, err := p.exchange(ctx, method, path, body)
	if err != nil {
		return p.wrap(err)
	}
	if code != http.StatusOK {
		return decodeRemoteError(code, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decoding the supervisor's answer: %w", err)
	}
	return nil
}

func (p *Plane) exchange(ctx context.Context, method, path string, body []byte) (code int, data []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err = io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

func decodeRemoteError(code int, data []byte) error {
	var remote remoteError
	if err := json.Unmarshal(data, &remote); err != nil || remote.Message == "" {
		return fmt.Errorf("the supervisor answered %d: %s", code, data)
	}
	if remote.Child != nil {
		return remote.Child
	}
	return errors.New(remote.Message)
}

// wrap tells a supervisor that has ended from one that does not answer.
func (p *Plane) wrap(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("asking the supervisor: %w", err)
	}
	// A process that ends closes its sockets a moment before it counts as ended.
	for deadline := time.Now().Add(endingGrace); p.supervisor.alive(); time.Sleep(pollPeriod) {
		if time.Now().After(deadline) {
			return fmt.Errorf("asking the supervisor: %w", err)
		}
	}
	return &NotRunningError{StateDir: p.layout.dir, Stale: p.leftRecord()}
}

// leftRecord reports whether the supervisor's record is still there: one that ends in order removes it.
func (p *Plane) leftRecord() bool {
	r, err := readRecord(p.layout)
	return err != nil || r.Supervisor == p.supervisor
}

// AssetsDir is the directory with the binaries that the plane was started from.
func (p *Plane) AssetsDir() (string, error) {
	data, err := os.ReadFile(p.layout.config())
	if err != nil {
		return "", fmt.Errorf("reading the plane's configuration: %w", err)
	}
	var config supervisorConfig
	if err := json.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("reading the plane's configuration %s: %w", p.layout.config(), err)
	}
	return config.Config.AssetsDir, nil
}

// AuditLog is the file in which the API server records the requests of ServiceAccounts, one audit event a
// line, before it answers them. See Config.Audit and Config.AuditAll.
func (p *Plane) AuditLog() string { return p.layout.auditLog() }

// Kubectl returns a command for the built kubectl that talks to the plane. The caller sets its input and output.
func (p *Plane) Kubectl(ctx context.Context, assetsDir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(assetsDir, binDir, kubectlBinary), args...) //nolint:gosec // G204: running the user's kubectl command is the point
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.layout.kubeconfig())
	return cmd
}
