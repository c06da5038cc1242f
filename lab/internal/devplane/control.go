package devplane

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// A watch without a change answers after this long, so that a broken connection is noticed.
	watchTimeout      = 30 * time.Second
	readHeaderTimeout = 10 * time.Second
	maxRequestBytes   = 1 << 20
	tunnelProtocol    = "windlass-tunnel"
)

// serveControl answers on the socket in the state directory. Only the user can enter that, or connect to the socket.
func (s *supervisor) serveControl(ctx context.Context) error {
	// A relative name, because the kernel limits a socket's path to about 100 bytes.
	if err := os.Chdir(s.layout.dir); err != nil {
		return fmt.Errorf("entering the state directory: %w", err)
	}
	listener, err := listenPrivate(ctx, socketName)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", s.layout.socket(), err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.handleStatus)
	mux.HandleFunc("POST /v1/stop", s.handleStop)
	mux.HandleFunc("GET /v1/dial", s.handleDial)
	mux.HandleFunc("POST /v1/children", s.handleAdd)
	mux.HandleFunc("POST /v1/children/{name}/{verb}", s.handleOperate)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("The control socket is closed", "error", err)
		}
	}()
	return nil
}

// listenPrivate makes a socket that was never open to others, not even for a moment. The mask is the whole process's: call it before
// there is anything else that makes files.
func listenPrivate(ctx context.Context, path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(othersMode))
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", path)
}

// handleStatus answers at once, or with ?after=N when the revision is above N.
func (s *supervisor) handleStatus(w http.ResponseWriter, r *http.Request) {
	after := int64(-1)
	if text := r.URL.Query().Get("after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.answerError(w, http.StatusBadRequest, fmt.Errorf("after: %w", err))
			return
		}
		after = n
	}
	timeout := time.After(watchTimeout)
	for {
		s.mu.Lock()
		revision, changed := s.status.Revision, s.changed
		s.mu.Unlock()
		if revision > after {
			break
		}
		select {
		case <-changed:
			continue
		case <-timeout:
		case <-r.Context().Done():
			return
		}
		break
	}
	status, _ := s.snapshot()
	s.answer(w, status)
}

// handleStop never answers: the connection ends with the supervisor, when all children have ended.
func (s *supervisor) handleStop(_ http.ResponseWriter, r *http.Request) {
	s.stop(errors.New("asked to"))
	<-r.Context().Done()
}

func (s *supervisor) handleAdd(w http.ResponseWriter, r *http.Request) {
	var child Child
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&child); err != nil {
		s.answerError(w, http.StatusBadRequest, fmt.Errorf("reading the child: %w", err))
		return
	}
	if err := child.validate(); err != nil {
		s.answerError(w, http.StatusBadRequest, err)
		return
	}
	// Those of the configuration are the start's to add, when their turn comes.
	if slices.ContainsFunc(s.config.Children, func(other Child) bool { return other.Name == child.Name }) {
		s.answerError(w, http.StatusConflict, errTaken(child.Name))
		return
	}
	status, err := s.addChild(r.Context(), child)
	s.answerChild(w, status, err)
}

func (s *supervisor) handleOperate(w http.ResponseWriter, r *http.Request) {
	child, err := s.children.find(r.PathValue("name"))
	if err != nil {
		s.answerError(w, http.StatusNotFound, err)
		return
	}
	verb := r.PathValue("verb")
	if verb == "remove" && slices.Contains(reservedNames(), child.spec.Name) {
		s.answerError(w, http.StatusBadRequest, fmt.Errorf("%s is a part of the plane: it can be stopped, not removed", child.spec.Name))
		return
	}
	switch verb {
	case "start":
		status, err := s.startChild(r.Context(), child)
		s.answerChild(w, status, err)
	case "stop":
		s.answerChild(w, s.children.stop(child, 0), nil)
	case "remove":
		s.answerChild(w, s.children.remove(child), nil)
	case "kill":
		s.answerChild(w, s.children.kill(child), nil)
	default:
		s.answerError(w, http.StatusNotFound, fmt.Errorf("%q is not something to do with a child", verb))
	}
}

func (s *supervisor) answerChild(w http.ResponseWriter, status ChildStatus, err error) {
	if err != nil {
		s.answerError(w, http.StatusInternalServerError, err)
		return
	}
	s.answer(w, asSeenOutside(status, childProcesses(), s.ownProcessNamespace()))
}

func (s *supervisor) answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		s.log.Error("Answering a request", "error", err)
	}
}

func (s *supervisor) answerError(w http.ResponseWriter, code int, err error) {
	remote := remoteError{Message: err.Error()}
	errors.As(err, &remote.Child)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(remote); err != nil {
		s.log.Error("Answering a request", "error", err)
	}
}

// handleDial turns the connection into one to an address inside.
func (s *supervisor) handleDial(w http.ResponseWriter, r *http.Request) {
	var d net.Dialer
	inside, err := d.DialContext(r.Context(), "tcp", r.URL.Query().Get("address"))
	if err != nil {
		s.answerError(w, http.StatusBadGateway, err)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = inside.Close() // the first error is the one to tell
		s.answerError(w, http.StatusInternalServerError, err)
		return
	}
	// The client waits for this answer before it sends, so nothing can be in the buffer.
	_, err = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnelProtocol + "\r\n\r\n")
	if err = errors.Join(err, buffered.Flush()); err != nil {
		s.log.Error("Answering a dial", "error", err)
		_ = errors.Join(conn.Close(), inside.Close()) // nobody is left to tell
		return
	}
	splice(conn, inside)
}

// openTunnel is the client's side of handleDial.
func openTunnel(ctx context.Context, conn net.Conn, address string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://supervisor/v1/dial?address="+url.QueryEscape(address), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", tunnelProtocol)
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		// The server may speak first, and what it said may have arrived with the answer.
		return &tunnel{Conn: conn, reader: reader}, nil
	}
	defer func() { _ = response.Body.Close() }()
	var remote remoteError
	if err := json.NewDecoder(response.Body).Decode(&remote); err != nil {
		return nil, fmt.Errorf("the supervisor answered %s", response.Status)
	}
	return nil, errors.New(remote.Message)
}

type tunnel struct {
	net.Conn
	reader *bufio.Reader
}

func (t *tunnel) Read(p []byte) (int, error) { return t.reader.Read(p) }

// addChild prepares what a child asks for, and starts it.
func (s *supervisor) addChild(ctx context.Context, child Child) (ChildStatus, error) {
	s.mu.Lock()
	creds := s.creds
	s.mu.Unlock()
	if creds == nil {
		return ChildStatus{}, errors.New("the plane is not up yet: add children once it is, or name them in its configuration")
	}
	if _, err := s.children.find(child.Name); err == nil {
		return ChildStatus{}, errTaken(child.Name)
	}
	status := ChildStatus{Ports: map[string]uint16{}}
	values := map[string]string{"KUBECONFIG": s.layout.insideKubeconfig(), "CA_FILE": s.layout.ca()}
	var taken place
	if child.Replaces != "" {
		var err error
		if taken, err = s.place(child.Replaces); err != nil {
			return ChildStatus{}, err
		}
		child.Restart = cmp.Or(child.Restart, s.config.Restart)
		values["WEBHOOK_PORT"] = strconv.Itoa(int(taken.ports[portWebhook]))
		values["WEBHOOK_CERT_DIR"] = taken.certDir
		values["HEALTH_PORT"] = strconv.Itoa(int(taken.ports[portHealth]))
		maps.Copy(status.Ports, taken.ports)
	}
	if err := s.pickPorts(child, status.Ports, values); err != nil {
		return ChildStatus{}, err
	}
	if child.ServingCertificate {
		dir, err := creds.serving(child.Name)
		if err != nil {
			return ChildStatus{}, err
		}
		status.CertDir = dir
		values["CERT_DIR"] = dir
	}
	if err := s.logIn(ctx, child, taken.account, values); err != nil {
		return ChildStatus{}, err
	}
	expanded, err := expandChild(child, values)
	if err != nil {
		return ChildStatus{}, err
	}
	if expanded.StockArgs {
		expanded.Args = append(expanded.Args, taken.args...) // expandAll has made a new slice
	}
	expanded.Env = append([]string{"KUBECONFIG=" + values["KUBECONFIG"]}, expanded.Env...)
	expanded.Env = s.environment(expanded)
	return s.children.add(ctx, expanded, status)
}

// pickPorts picks the ports that a child asks for.
func (s *supervisor) pickPorts(child Child, ports map[string]uint16, values map[string]string) error {
	for _, name := range child.Ports {
		port, err := s.ports.pick(childPort)
		if err != nil {
			return err
		}
		ports[name] = port
		values["PORT_"+name] = strconv.Itoa(int(port))
	}
	return nil
}

// logIn makes the kubeconfig of a child that acts as a ServiceAccount: its own, or that of the manager that it
// replaces, which may be none.
func (s *supervisor) logIn(ctx context.Context, child Child, replaced types.NamespacedName, values map[string]string) error {
	account := child.ServiceAccount
	if account.Name == "" {
		account = replaced
	}
	if account.Name == "" && len(child.Objects) > 0 {
		return fmt.Errorf("%q has Objects and no ServiceAccount: set one", child.Name)
	}
	if account.Name == "" {
		return nil
	}
	login, err := s.authenticate(ctx, child.Name, account, child.Objects)
	values["KUBECONFIG"] = login
	return err
}

// place is what a stock manager shares with the child that replaces it. It is an error while somebody is in it.
func (s *supervisor) place(manager string) (place, error) {
	s.mu.Lock()
	p, ok := s.places[manager]
	s.mu.Unlock()
	if !ok {
		return place{}, fmt.Errorf("the plane was started without %s: there is nothing to replace", manager)
	}
	return p, s.children.checkFree(manager, "")
}

// startChild starts a child that was started before, unless another one is in its place.
func (s *supervisor) startChild(ctx context.Context, c *child) (ChildStatus, error) {
	if err := s.children.checkFree(cmp.Or(c.spec.Replaces, c.spec.Name), c.spec.Name); err != nil {
		return ChildStatus{}, err
	}
	return s.children.start(ctx, c)
}

// environment is what a child gets: not the user's, whose proxies and kubeconfig are about other servers.
func (s *supervisor) environment(child Child) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.layout.dir,
		"TMPDIR=" + s.layout.temp(),
		"KUBECONFIG=" + s.layout.insideKubeconfig(),
	}, child.Env...)
}
