package k8sdtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"path"
)

// maxBody bounds what is read of a request.
const maxBody = 1 << 20

// response is the envelope of all answers.
type response struct {
	Type       string `json:"type"`
	Status     string `json:"status,omitempty"`
	StatusCode int    `json:"status_code,omitempty"`
	Error      string `json:"error"`
	ErrorCode  int    `json:"error_code"`
	Metadata   any    `json:"metadata"`
}

// answer is what a request is answered with.
type answer struct {
	code    int
	failure string
	result  any
}

func fails(code int, format string, args ...any) answer {
	return answer{code: code, failure: fmt.Sprintf(format, args...)}
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /1.0/snap/refresh", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.refresh) })
	mux.HandleFunc("POST /1.0/snap/refresh-status", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, s.refreshStatus) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { write(w, fails(http.StatusNotFound, "not found")) })
	return mux
}

// serve finds the machine of a request, and has it served, unless a fault hits it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, serve func(*machine, Faults, []byte) answer) {
	token := r.Header.Get("node-token")
	if token == "" {
		write(w, fails(http.StatusUnauthorized, "missing header \"node-token\""))
		return
	}
	s.mu.Lock()
	m := s.tokens[token]
	s.mu.Unlock()
	if m == nil {
		write(w, fails(http.StatusUnauthorized, "invalid token"))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, fails(http.StatusBadRequest, "reading the request: %v", err))
		return
	}
	faults := m.takeFaults()
	if faults.Hang {
		<-r.Context().Done()
		drop()
	}
	given, away := s.work(m, faults, body, serve)
	switch {
	case away || faults.DropBefore || faults.DropAfter:
		drop()
	case faults.Nonsense:
		_, _ = io.WriteString(w, "<html>this is no k8sd</html>") // Nobody is left to tell.
	default:
		write(w, given)
	}
}

// work serves a request under the machine's lock. away says that k8sd restarts.
func (s *Server) work(m *machine, faults Faults, body []byte, serve func(*machine, Faults, []byte) answer) (given answer, away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Requests++
	s.settle(m)
	switch {
	case s.restarts(m):
		return answer{}, true
	case faults.DropBefore || faults.Nonsense:
		return answer{}, false
	case faults.Unavailable:
		return fails(http.StatusServiceUnavailable, "Daemon is shutting down"), false
	case faults.InternalError != "":
		return fails(http.StatusInternalServerError, "%s", faults.InternalError), false
	default:
		return serve(m, faults, body), false
	}
}

// drop cuts the connection of the request that is served.
func drop() { panic(http.ErrAbortHandler) }

func write(w http.ResponseWriter, a answer) {
	envelope := response{Type: "sync", Status: "Success", StatusCode: http.StatusOK, Metadata: a.result}
	if a.failure != "" {
		envelope = response{Type: "error", Error: a.failure, ErrorCode: a.code}
	}
	w.Header().Set("Content-Type", "application/json")
	if a.failure != "" {
		w.WriteHeader(a.code)
	}
	_ = json.NewEncoder(w).Encode(envelope) // Nobody is left to tell.
}

func (s *Server) refresh(m *machine, faults Faults, body []byte) answer {
	var option Option
	if err := decodeStrict(body, &option); err != nil {
		return fails(http.StatusBadRequest, "failed to parse request: %v", err)
	}
	if problem := option.check(); problem != "" {
		return fails(http.StatusBadRequest, "invalid refresh options: %s", problem)
	}
	type result struct {
		ChangeID string `json:"changeId"`
	}
	switch {
	case faults.EmptyChangeID:
		return answer{result: result{}}
	case m.running != nil:
		return snapExits(10)
	case faults.RefuseRefresh, option.LocalPath != "" && !path.IsAbs(option.LocalPath):
		return snapExits(1)
	case option.LocalPath == "" && option == m.state.Installed:
		return answer{result: result{}}
	default:
		return answer{result: result{ChangeID: s.begin(m, option).id}}
	}
}

// check says what is wrong with an option; empty where nothing is.
func (o Option) check() string {
	set := 0
	for _, value := range []string{o.Channel, o.Revision, o.LocalPath} {
		if value != "" {
			set++
		}
	}
	switch set {
	case 0:
		return "empty snap refresh target"
	case 1:
		return ""
	default:
		return "only one of localPath, channel or revision can be specified"
	}
}

// snapExits is the answer after a snap command that failed. k8sd does not read what the command printed.
func snapExits(status int) answer {
	return fails(http.StatusInternalServerError, "failed to refresh snap: failed to refresh snap: exit status %d", status)
}

func decodeStrict(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (s *Server) refreshStatus(m *machine, _ Faults, body []byte) answer {
	var request struct {
		ChangeID string `json:"changeId"`
	}
	if err := decodeStrict(body, &request); err != nil {
		return fails(http.StatusBadRequest, "failed to parse request: %v", err)
	}
	var result struct {
		Status       string `json:"status"`
		Completed    bool   `json:"completed"`
		ErrorMessage string `json:"errorMessage"`
	}
	// k8sd decodes snapd's error about an unknown change as a change with empty fields.
	if known := m.changes[request.ChangeID]; known != nil {
		result.Status, result.Completed, result.ErrorMessage = known.status(), known.completed, known.failed
	}
	return answer{result: result}
}
