package conformance_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

const hooks = "hooks.runtime.cluster.x-k8s.io/v1alpha1"

// object is a JSON object.
type object = map[string]any

// subject is an updater whose every part can be made bad. It covers the version, and updates in three requests.
type subject struct {
	handlers []object
	tls      *tls.Config
	// plain serves without TLS, too.
	plain bool
	// decide and update answer a hook; they may be wrapped.
	decide func(set bool, request object) object
	update func(machine, operation string) object

	mu    sync.Mutex
	asked map[string]int
}

func newSubject() *subject {
	s := &subject{asked: map[string]int{}}
	for _, hook := range []string{"CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"} {
		s.handlers = append(s.handlers, object{
			"name": "on-" + strings.ToLower(hook), "requestHook": object{"apiVersion": hooks, "hook": hook}, "timeoutSeconds": 5, "failurePolicy": "Fail",
		})
	}
	s.decide = decideVersion
	s.update = s.updateInThree
	return s
}

func patch(path, value string) object {
	data := fmt.Sprintf(`[{"op":"add","path":%q,"value":%q}]`, path, value)
	return object{"patchType": "JSONPatch", "patch": base64.StdEncoding.EncodeToString([]byte(data))}
}

func dig(o any, way ...string) any {
	for _, field := range way {
		inner, ok := o.(object)
		if !ok {
			return nil
		}
		o = inner[field]
	}
	return o
}

func decideVersion(set bool, request object) object {
	part, way := "machine", []string{"spec", "version"}
	if set {
		part, way = "machineSet", []string{"spec", "template", "spec", "version"}
	}
	current, desired := dig(request["current"], append([]string{part}, way...)...), dig(request["desired"], append([]string{part}, way...)...)
	response := object{"status": "Success"}
	if current != desired {
		response[part+"Patch"] = patch("/"+strings.Join(way, "/"), fmt.Sprint(desired))
	}
	return response
}

func (s *subject) updateInThree(machine, operation string) object {
	if machine != "worker-0" {
		return object{"status": "Failure", "message": "there is no Machine " + machine}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[operation]++
	return object{"status": "Success", "retryAfterSeconds": max(0, 5-s.asked[operation])}
}

func (s *subject) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request object
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var response object
	switch rest := strings.TrimPrefix(r.URL.Path, "/"+hooks+"/"); strings.Split(rest, "/")[0] {
	case "discovery":
		response = object{"status": "Success", "handlers": s.handlers}
		if s.handlers == nil {
			response = object{"status": "Failure", "message": "not ready"}
		}
	case "canupdatemachine":
		response = s.decide(false, request)
	case "canupdatemachineset":
		response = s.decide(true, request)
	case "updatemachine":
		operation, _ := dig(request, "desired", "machine", "metadata", "annotations", "windlass.dev/operation-id").(string)
		machine, _ := dig(request, "desired", "machine", "metadata", "name").(string)
		response = s.update(machine, operation)
	}
	if response == nil {
		<-r.Context().Done()
		return
	}
	_ = json.NewEncoder(w).Encode(response)
}

// sniffing is a listener whose connections speak TLS or not, as the caller likes.
type sniffing struct {
	net.Listener
	config *tls.Config
}

type peeked struct {
	net.Conn
	reader *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.reader.Read(b) }

func (s *sniffing) Accept() (net.Conn, error) {
	for {
		connection, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		p := &peeked{Conn: connection, reader: bufio.NewReader(connection)}
		first, err := p.reader.Peek(1)
		if err != nil {
			_ = connection.Close()
			continue
		}
		const handshake = 0x16
		if first[0] == handshake {
			return tls.Server(p, s.config), nil
		}
		return p, nil
	}
}
