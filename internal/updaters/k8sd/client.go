package k8sd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace/request"
	"github.com/windlass-dev/windlass/internal/peer"
	"github.com/windlass-dev/windlass/internal/untrusted"
	"github.com/windlass-dev/windlass/internal/updaters"
)

const (
	// requestTimeout bounds connecting to a node, and one request to it.
	requestTimeout = 10 * time.Second
	// maxBody bounds what is read of an answer, in bytes.
	maxBody = 1 << 20
	// tokenHeader carries the node's token.
	tokenHeader = "node-token"

	refreshPath = "/1.0/snap/refresh"
	statusPath  = "/1.0/snap/refresh-status"
)

// refreshAnswer is k8sd's answer to a request for a refresh.
type refreshAnswer struct {
	ChangeID changeID `json:"changeId"`
}

// changeID names a change of a snap. It becomes part of annotations and messages, so one that snapd would not make is refused.
type changeID string

// maxChangeID bounds a changeID, in bytes. snapd counts changes.
const maxChangeID = 64

// UnmarshalJSON implements json.Unmarshaler.
func (c *changeID) UnmarshalJSON(data []byte) error {
	var id string
	if err := json.Unmarshal(data, &id); err != nil {
		return err
	}
	if len(id) > maxChangeID || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("it is no id of a change")
	}
	*c = changeID(id)
	return nil
}

// setupError is the error of something that people must set up before a node can be asked at all.
type setupError struct{ err error }

func (e *setupError) Error() string { return e.err.Error() }
func (e *setupError) Unwrap() error { return e.err }

func setup(format string, args ...any) error { return &setupError{fmt.Errorf(format, args...)} }

// refusedError is an answer of k8sd that says no.
type refusedError struct {
	code    int
	message string
}

// Error implements error.
func (e *refusedError) Error() string {
	switch {
	case e.message == "":
		return fmt.Sprintf("k8sd answered %d %s", e.code, http.StatusText(e.code))
	case e.code == http.StatusUnauthorized || e.code == http.StatusForbidden:
		return fmt.Sprintf("k8sd does not accept the node's token: %s", e.message)
	default:
		return fmt.Sprintf("k8sd answered: %s", e.message)
	}
}

// isConflict says that another change of the snap goes on. k8sd runs `snap` and returns its exit status without
// what it printed; snap exits with 10 for a conflict of changes, and only for that.
func (e *refusedError) isConflict() bool {
	words := strings.ToLower(e.message)
	return strings.HasSuffix(words, "exit status 10") ||
		strings.Contains(words, "change in progress") || strings.Contains(words, "changes in progress")
}

// isUnavailable says that k8sd starts or stops: it refuses all requests before it looks at them.
func (e *refusedError) isUnavailable() bool {
	return e.code == http.StatusServiceUnavailable && e.message != ""
}

// advice is what a person can do about an error that lacks the words of snap; empty for another one.
func (e *refusedError) advice(o request.Option) string {
	if !strings.Contains(e.message, "exit status ") {
		return ""
	}
	advice := ". k8sd does not return what snap printed. Fix: look at `journalctl -u snapd` and `snap changes` on the node"
	if o.Method != request.LocalPath {
		advice += fmt.Sprintf(", and whether `snap info k8s` lists the %s %s", o.Method, o.Value)
	}
	return advice
}

// isAnswered says that k8sd itself said no, so that what was asked for was not begun. An error without words may be of something
// between, which gave up on a request that k8sd got.
func (e *refusedError) isAnswered() bool {
	return e.message != "" || e.code < http.StatusInternalServerError
}

// session is a connection to the k8sd of one machine, for one request.
type session struct {
	conn  *countedConn
	host  string
	token string
}

// countedConn knows whether anything was written to it.
type countedConn struct {
	net.Conn
	written atomic.Bool
}

// Write implements net.Conn.
func (c *countedConn) Write(b []byte) (int, error) {
	c.written.Store(true)
	return c.Conn.Write(b)
}

// connect connects to the k8sd of a machine and makes sure that it is that. Nothing was asked for when it fails. A *setupError is one
// that only people can fix.
func (u *Updater) connect(ctx context.Context, m Machine) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	token, err := u.readToken(ctx, m)
	if err != nil {
		return nil, err
	}
	trusted, err := u.resolveTrust(ctx, m)
	if err != nil {
		return nil, err
	}
	raw, host, err := u.dial(ctx, m)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(raw, trusted.config(host))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("TLS with k8sd of node %s: %w", m.nodeOrName(), steady(err))
	}
	return &session{conn: &countedConn{Conn: secure}, host: host, token: token}, nil
}

// nodeOrName names the machine's node, or the Machine where the node is not known.
func (m Machine) nodeOrName() string {
	if m.Node != "" {
		return m.Node
	}
	return m.Name.Name
}

// readToken reads the node's token, which gives all power over the node, and is never shown.
func (u *Updater) readToken(ctx context.Context, m Machine) (string, error) {
	name, key := types.NamespacedName{Namespace: m.Name.Namespace, Name: m.Cluster + "-token"}, "node-token-"+m.Name.Name
	data, err := u.readSecret(ctx, name, "the tokens of nodes")
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data[key]))
	switch {
	case token == "":
		return "", setup("the Secret %s has no key %s with the node's token", name, key)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", setup("what the Secret %s has under %s is no token: it must be one line of ASCII", name, key)
	default:
		return token, nil
	}
}

// dial connects to the machine's k8sd, and gives the name that its certificate should be for.
func (u *Updater) dial(ctx context.Context, m Machine) (conn net.Conn, host string, err error) {
	if u.options.Config.Reach == v1alpha1.K8sdPortForward {
		if m.Node == "" {
			return nil, "", fmt.Errorf("the Machine %s has no node yet", m.Name)
		}
		if conn, err = u.options.Forward(ctx, m.cluster(), m.Node); err != nil {
			return nil, "", fmt.Errorf("reaching k8sd of node %s: %w", m.Node, err)
		}
		return conn, m.Node, nil
	}
	if host = u.options.Config.DirectHost; host == "" {
		host = selectAddress(m.Addresses)
	}
	if host == "" {
		return nil, "", fmt.Errorf("the Machine %s has no address: its status has neither an InternalIP nor an ExternalIP", m.Name)
	}
	dialer := &net.Dialer{}
	address := net.JoinHostPort(host, strconv.Itoa(int(u.options.Config.Port)))
	if conn, err = dialer.DialContext(ctx, "tcp", address); err != nil {
		return nil, "", fmt.Errorf("reaching k8sd of node %s at %s: %w", m.nodeOrName(), address, steady(err))
	}
	return conn, host, nil
}

// selectAddress selects the address to connect to; empty where there is none.
func selectAddress(addresses clusterv1.MachineAddresses) string {
	for _, wanted := range []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP} {
		for _, a := range addresses {
			if a.Type == wanted && a.Address != "" {
				return a.Address
			}
		}
	}
	return ""
}

// sent says whether any of the request may have reached k8sd.
func (s *session) sent() bool { return s.conn.written.Load() }

func (s *session) close() { _ = s.conn.Close() }

// post makes the session's one request, and reads the metadata of the answer into result. A *refusedError is k8sd's own no; after any
// other error, what was asked for may have been done, if anything was sent.
func (s *session) post(ctx context.Context, path string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("writing the request: %w", err)
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+net.JoinHostPort(s.host, strconv.Itoa(defaultPort))+path, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	// The connection is there already, so nothing but the path says anything about where the request goes.
	asked.Header.Set("Content-Type", "application/json")
	asked.Header.Set(tokenHeader, s.token)
	client := peer.NewClient(peer.NewTransport(peer.Connection{Established: s.conn, Timeout: requestTimeout}), peer.Limits{Timeout: requestTimeout, BodyBytes: maxBody})
	response, err := client.Do(asked)
	if err != nil {
		return fmt.Errorf("asking k8sd: %w", steady(err))
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if _, tooLong := errors.AsType[*peer.TooLongError](err); tooLong {
		return fmt.Errorf("k8sd's answer is longer than %d bytes", maxBody)
	}
	if err != nil {
		return fmt.Errorf("reading k8sd's answer: %w", steady(err))
	}
	return s.decode(response.StatusCode, answer, result)
}

var errTimeout = errors.New("no complete answer in time")

// steady gives the part of a connection's error that stays the same from one attempt to the next, since the words end up in conditions: method and
// URL say nothing here, and the port of our own end changes.
func steady(err error) error {
	// Two timers end a request, and each has its own words.
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return errTimeout
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if connection, ok := errors.AsType[*net.OpError](err); ok {
		err = connection.Err
	}
	return err
}

// decode reads an answer. What it says to people is made fit for conditions, and never holds the token.
func (s *session) decode(code int, answer []byte, result any) error {
	var envelope struct {
		Error    string          `json:"error"`
		Metadata json.RawMessage `json:"metadata"`
	}
	err := untrusted.Object.Unmarshal(answer, &envelope)
	switch {
	case err == nil && envelope.Error != "":
		return &refusedError{code: code, message: s.clean(envelope.Error)}
	case code != http.StatusOK:
		return &refusedError{code: code}
	case err != nil || len(envelope.Metadata) == 0 || untrusted.Object.Unmarshal(envelope.Metadata, result) != nil:
		return errors.New("the answer is not one of k8sd: is another program on its port?")
	default:
		return nil
	}
}

func (s *session) clean(said string) string {
	return updaters.CleanMessage(strings.ReplaceAll(said, s.token, "(token)"))
}
