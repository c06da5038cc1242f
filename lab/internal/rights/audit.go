package rights

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Log is what an API server recorded of one user: each request once, sorted.
type Log struct {
	Allowed, Refused []Request
}

// event is what is read of an audit event of audit.k8s.io/v1.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// decision is the annotation with the authorizer's answer. A request that it was not asked about has none.
const (
	decision = "authorization.k8s.io/decision"
	allow    = "allow"
	forbid   = "forbid"
)

// ReadLog reads the requests of a user about resources from an audit log with one event a line. A last line without end is still
// being written, and is left out.
func ReadLog(data []byte, user string) (Log, error) {
	allowed, refused := map[Request]bool{}, map[Request]bool{}
	complete := data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(complete) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return Log{}, fmt.Errorf("decoding the audit event %q: %w", line, err)
		}
		if e.User.Username != user || e.ObjectRef == nil {
			continue
		}
		request := e.request()
		switch e.Annotations[decision] {
		case allow:
			allowed[request] = true
		case forbid:
			refused[request] = true
		}
		if created := e.creation(); created.Verb != "" {
			if e.ResponseStatus.Code == http.StatusForbidden {
				refused[created] = true
			} else {
				allowed[created] = true
			}
		}
	}
	return Log{Allowed: sorted(allowed), Refused: sorted(refused)}, nil
}

func (e event) request() Request {
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return Request{
		Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: resource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
	}
}

// creation returns the second right that a patch or update needs if it creates the object, which the API server
// checks without recording its decision; empty for other requests.
func (e event) creation() Request {
	if e.Verb != "patch" && e.Verb != "update" {
		return Request{}
	}
	refused := e.ResponseStatus.Code == http.StatusForbidden && strings.Contains(e.ResponseStatus.Message, "cannot create resource")
	if e.ResponseStatus.Code != http.StatusCreated && !refused {
		return Request{}
	}
	request := e.request()
	request.Verb = "create"
	return request
}

func sorted(requests map[Request]bool) []Request {
	return slices.SortedFunc(maps.Keys(requests), func(a, b Request) int { return cmp.Compare(a.String(), b.String()) })
}
