package rights

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/lab/internal/requests"
)

// Log is what an API server recorded of one user: each request once, sorted.
type Log struct {
	Allowed, Refused []Request
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
	events, _, err := requests.DecodeEvents(data)
	if err != nil {
		return Log{}, fmt.Errorf("reading an audit log: %w", err)
	}
	for _, e := range events {
		if e.User.Username != user || e.ObjectRef == nil {
			continue
		}
		request := requestOf(e)
		switch e.Annotations[decision] {
		case allow:
			allowed[request] = true
		case forbid:
			refused[request] = true
		}
		if created := creation(e); created.Verb != "" {
			if e.ResponseStatus.Code == http.StatusForbidden {
				refused[created] = true
			} else {
				allowed[created] = true
			}
		}
	}
	return Log{Allowed: sorted(allowed), Refused: sorted(refused)}, nil
}

func requestOf(e requests.Event) Request {
	return Request{
		Verb: e.Verb, Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Path(),
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
	}
}

// creation returns the second right that a patch or update needs if it creates the object, which the API server
// checks without recording its decision; empty for other requests.
func creation(e requests.Event) Request {
	if e.Verb != "patch" && e.Verb != "update" {
		return Request{}
	}
	refused := e.ResponseStatus.Code == http.StatusForbidden && strings.Contains(e.ResponseStatus.Message, "cannot create resource")
	if e.ResponseStatus.Code != http.StatusCreated && !refused {
		return Request{}
	}
	request := requestOf(e)
	request.Verb = "create"
	return request
}

func sorted(set map[Request]bool) []Request {
	return slices.SortedFunc(maps.Keys(set), func(a, b Request) int { return cmp.Compare(a.String(), b.String()) })
}
