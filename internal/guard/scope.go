package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windlass-dev/windlass/internal/capi"
)

// Scope is the set of groups about whose Machines the API server asks the guard. Its entries are
// sorted and name a group, all groups of a Cluster, or all groups of a namespace; see the functions
// that make entries. A Scope with the entry everything has no other. The methods change no Scope.
type Scope []string

// everything names all groups. No namespace has this name.
const everything = "*"

// NamespaceEntry names all groups of a namespace, including those that do not exist yet.
func NamespaceEntry(namespace string) string { return namespace }

// ClusterEntry names all groups of a Cluster, including those that do not exist yet.
func ClusterEntry(namespace, cluster string) string { return namespace + "/" + cluster }

// ControlPlaneEntry names the control plane of a Cluster.
func ControlPlaneEntry(namespace, cluster string) string {
	return ClusterEntry(namespace, cluster) + "/cp"
}

// MachineDeploymentEntry names one MachineDeployment of a Cluster.
func MachineDeploymentEntry(namespace, cluster, name string) string {
	return ClusterEntry(namespace, cluster) + "/md/" + name
}

// NewScope returns the Scope of these entries, without those that a wider entry includes.
func NewScope(entries ...string) Scope {
	scope := Scope{}
	// A wider entry is a prefix of a narrower one, so it comes first.
	for _, entry := range slices.Compact(slices.Sorted(slices.Values(entries))) {
		if !scope.Covers(entry) {
			scope = append(scope, entry)
		}
	}
	return scope
}

// IsEverything reports whether the Scope includes all groups of all namespaces.
func (s Scope) IsEverything() bool { return len(s) > 0 && s[0] == everything }

// Covers reports whether the Scope has an entry, or one that includes it.
func (s Scope) Covers(entry string) bool {
	if s.IsEverything() {
		return true
	}
	for wider := entry; ; {
		if _, found := slices.BinarySearch(s, wider); found {
			return true
		}
		parent, _, ok := cutLast(wider)
		if !ok {
			return false
		}
		wider = parent
	}
}

// In returns the entries of one namespace.
func (s Scope) In(namespace string) Scope {
	return slices.DeleteFunc(slices.Clone(s), func(entry string) bool { return namespaceOf(entry) != namespace })
}

// Equal reports whether two Scopes have the same entries.
func (s Scope) Equal(other Scope) bool { return slices.Equal(s, other) }

// With returns the Scope with other entries for one namespace; those of other namespaces stay.
func (s Scope) With(namespace string, entries ...string) Scope {
	return s.WithAll(map[string]Scope{namespace: entries})
}

// WithAll returns the Scope with other entries for some namespaces; those of other namespaces stay.
func (s Scope) WithAll(replaced map[string]Scope) Scope {
	entries := slices.DeleteFunc(slices.Clone(s), func(entry string) bool {
		_, found := replaced[namespaceOf(entry)]
		return found
	})
	for _, others := range replaced {
		entries = append(entries, others...)
	}
	return NewScope(entries...)
}

// Fit returns a Scope that covers s and fits in an expression. While all entries together are too
// long, those of the namespace with the most bytes become one for the whole namespace. So a namespace
// loses its detail only to others that ask for less.
func (s Scope) Fit() Scope {
	detail, total := map[string]int{}, len(Scope{}.Expression(strings.Repeat("x", maxWriter)))
	for _, entry := range s {
		detail[namespaceOf(entry)] += costOf(entry)
		total += costOf(entry)
	}
	largestFirst := slices.SortedFunc(maps.Keys(detail), func(a, b string) int {
		return cmp.Or(cmp.Compare(detail[b], detail[a]), cmp.Compare(a, b))
	})
	entries := slices.Clone(s)
	for _, namespace := range largestFirst {
		if total <= MaxExpression {
			break
		}
		entries = append(entries, NamespaceEntry(namespace))
		total -= detail[namespace] - costOf(namespace)
	}
	if total > MaxExpression {
		return Scope{everything}
	}
	return NewScope(entries...)
}

// costOf returns the bytes of an entry in an expression, with its quotes and separator.
func costOf(entry string) int { return len(entry) + len(`"",`+"\n") }

// Namespaces returns the namespaces that have entries of their own, sorted.
func (s Scope) Namespaces() []string {
	if s.IsEverything() {
		return nil
	}
	var names []string
	for _, entry := range s {
		names = append(names, namespaceOf(entry))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namespaceOf(entry string) string {
	namespace, _, _ := strings.Cut(entry, "/")
	return namespace
}

func cutLast(entry string) (before, after string, found bool) {
	if i := strings.LastIndexByte(entry, '/'); i >= 0 {
		return entry[:i], entry[i+1:], true
	}
	return entry, "", false
}

const (
	// MaxExpression is the most bytes that Expression may return. The API server accepts
	// expressions of 100 000 characters.
	MaxExpression = 98_000
	// maxWriter is how long the name of a writer may be.
	maxWriter = 63
)

// The parts of an expression around its writer, its entries, and the groups that the Machine may
// belong to. A group is "cp", or "md/" with the name of a MachineDeployment. anyDeployment stands for
// each MachineDeployment of the Cluster.
const (
	expressionWriter = "// Written by windlass extension, process %s. Do not edit.\n"
	expressionPrefix = `[`
	expressionFormat = `].exists(scope,
[request.operation == "DELETE" ? oldObject : object].exists(m, [m.metadata.?labels.orValue({})].exists(labels,
[m.metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false))].exists(controllers,
[request.namespace + "/" + m.spec.clusterName].exists(cluster,
(%s).exists(group,
["*", request.namespace, cluster, cluster + "/" + group].exists(entry, entry in scope) ||
group == "` + anyDeployment + `" && scope.exists(entry, entry.startsWith(cluster + "/" + group))))))))`
	anyDeployment = "md/"
)

// expressionSuffix is what follows the entries.
var expressionSuffix = fmt.Sprintf(expressionFormat, groupsExpression(capi.Memberships()))

// groupsExpression returns a CEL expression that lists the groups that a Machine may belong to, by
// the first of the rules that holds. A rule that only a MachineSet can confirm adds those of the rules
// after it.
func groupsExpression(rules []capi.Membership) string {
	if len(rules) == 0 {
		return "[]"
	}
	rule, rest := rules[0], groupsExpression(rules[1:])
	group := ""
	switch rule.Group {
	case capi.DeploymentOfLabel:
		group = fmt.Sprintf(`["md/" + labels[%q]]`, rule.Named)
	case capi.DeploymentOfController:
		group = `controllers.map(o, "md/" + o.name)`
	case capi.DeploymentOfSet:
		group = fmt.Sprintf(`[%q] + (%s)`, anyDeployment, rest)
	case capi.ControlPlaneOfCluster:
		group = `["cp"]`
	case capi.NoGroup:
		group = `[]`
	}
	return fmt.Sprintf("%s ? %s :\n%s", conditionExpression(rule), group, rest)
}

// conditionExpression returns a CEL expression that is true if the rule holds.
func conditionExpression(rule capi.Membership) string {
	var conditions []string
	if rule.Named != "" {
		conditions = append(conditions, fmt.Sprintf(`labels[?%q].orValue("") != ""`, rule.Named))
	}
	if rule.Has != "" {
		conditions = append(conditions, fmt.Sprintf(`%q in labels`, rule.Has))
	}
	if rule.Without != "" {
		conditions = append(conditions, fmt.Sprintf(`!(%q in labels)`, rule.Without))
	}
	if rule.Controller.Group != "" {
		controller := fmt.Sprintf(`o.apiVersion.startsWith(%q)`, rule.Controller.Group+"/")
		if rule.Controller.Kind != "" {
			controller = fmt.Sprintf(`o.kind == %q && %s`, rule.Controller.Kind, controller)
		}
		conditions = append(conditions, fmt.Sprintf(`controllers.exists(o, %s)`, controller))
	}
	return strings.Join(conditions, " && ")
}

var writerPattern = regexp.MustCompile(fmt.Sprintf(
	`^// Written by windlass extension, process ([0-9a-zA-Z-]{1,%d})\. Do not edit\.\n`, maxWriter))

// Expression returns the Scope as a CEL expression for a match condition of the guard's webhook: it
// is true for Machines of groups in the Scope. writer names the process that writes it, in at most
// maxWriter letters, digits and hyphens.
func (s Scope) Expression(writer string) string {
	entries := []string(s)
	if entries == nil {
		entries = []string{}
	}
	// The entries are names and slashes, so JSON and CEL write them alike, and marshalling strings does not fail.
	list, err := json.Marshal(entries)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(expressionWriter, writer) + expressionPrefix + strings.ReplaceAll(string(list), `","`, "\",\n\"") + expressionSuffix
}

// ParseExpression returns what Expression was called with. It fails for every other text, because
// nobody knows which Machines that one matches. If another release wrote it, writer is still known.
func ParseExpression(expression string) (scope Scope, writer string, ok bool) {
	match := writerPattern.FindStringSubmatch(expression)
	if match == nil {
		return nil, "", false
	}
	list, ok := strings.CutPrefix(expression[len(match[0]):], expressionPrefix)
	if !ok {
		return nil, match[1], false
	}
	list, ok = strings.CutSuffix(list, expressionSuffix)
	if !ok {
		return nil, match[1], false
	}
	var entries []string
	if err := json.Unmarshal([]byte(list), &entries); err != nil {
		return nil, match[1], false
	}
	scope = NewScope(entries...)
	// An edit by hand may list the entries differently, and mean something else.
	return scope, match[1], scope.Expression(match[1]) == expression
}
