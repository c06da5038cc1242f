package requests

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Writes reports whether a request may change an object. One that fails, or that changes nothing,
// counts, too. A dry run does not.
func (r Request) Writes() bool {
	return !r.DryRun && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// Conflict reports whether the API server refused a request because the object had changed.
func (r Request) Conflict() bool { return r.Code == http.StatusConflict }

// ClusterAPI reports whether a request is about a kind of Cluster API or of one of its providers.
func (r Request) ClusterAPI() bool {
	return r.Group == clusterAPI || strings.HasSuffix(r.Group, "."+clusterAPI)
}

const clusterAPI = "cluster.x-k8s.io"

// String returns "patch machines/status".
func (r Request) String() string { return r.Verb + " " + r.Resource }

// Count is how many requests have a name.
type Count struct {
	Name     string
	Requests int
}

// CountBy counts requests by a name that each has. The most frequent names come first, and names that
// are as frequent are sorted.
func CountBy(all []Request, name func(Request) string) []Count {
	counts := map[string]int{}
	for _, r := range all {
		counts[name(r)]++
	}
	var sorted []Count
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		sorted = append(sorted, Count{Name: name, Requests: counts[name]})
	}
	slices.SortStableFunc(sorted, func(a, b Count) int { return cmp.Compare(b.Requests, a.Requests) })
	return sorted
}

// Select returns the requests that match, in their order.
func Select(all []Request, match func(Request) bool) []Request {
	var found []Request
	for _, r := range all {
		if match(r) {
			found = append(found, r)
		}
	}
	return found
}
