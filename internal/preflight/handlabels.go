package preflight

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
)

// maxHandLabels is how many labels of other domains than Kubernetes' own a Node may have to be judged: each
// is searched in all that kubectl has written, and a Node is a tenant's.
const maxHandLabels = 100

// HandLabels returns the keys of labels that a person has set on a Node, by its managedFields, sorted. Those
// of Kubernetes' own domains are none: controllers and kubelets set them again, and Cluster API may.
func HandLabels(node *corev1.Node) []string {
	var keys []string
	for key := range node.Labels {
		if domain, _, _ := strings.Cut(key, "/"); !isKubernetes("." + domain) {
			keys = append(keys, key)
		}
	}
	if len(keys) > maxHandLabels {
		return nil
	}
	var byHand []string
	for _, e := range node.ManagedFields {
		if strings.HasPrefix(e.Manager, "kubectl") && e.FieldsV1 != nil {
			byHand = append(byHand, e.FieldsV1.GetRawString())
		}
	}
	var set []string
	for _, key := range keys {
		names := func(fields string) bool { return strings.Contains(fields, `"f:`+key+`"`) }
		if slices.ContainsFunc(byHand, names) {
			set = append(set, key)
		}
	}
	slices.Sort(set)
	return set
}

// isKubernetes reports whether a domain, with a dot before it, is one of Kubernetes' own or below one.
func isKubernetes(domain string) bool {
	return strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") ||
		strings.HasSuffix(domain, ".x-k8s.io")
}

// CheckHandLabels finds labels that a person has set on the Nodes of a pool whose machines are replaced, and
// that a Pod there needs: a new Node does not have them, and the Pod finds no Node. hand are the keys of
// HandLabels by Node.
func CheckHandLabels(
	pools []Pool, nodes []corev1.Node, pods []Workload, hand map[string][]string,
) []clustercheck.Finding {
	r := report{id: NodeLabelsStay}
	byName := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	for _, pool := range pools {
		needed := pool.neededLabels(byName, pods, hand)
		for _, key := range slices.Sorted(maps.Keys(needed)) {
			names := slices.Sorted(maps.Keys(needed[key]))
			r.warn(pool.Name, "give it with node-labels in the bootstrap config, or as a label of the domain "+
				"node.cluster.x-k8s.io in the machines' template, and select that",
				"its Nodes have the label %s by hand, so the machines that replace them do not, and these need it: %s",
				key, text.JoinSome(names, shown, ", "))
		}
	}
	return r.finish("no Pod needs a label that only the present Nodes have")
}

// neededLabels returns, by the key of a label that a person has set, the Pods on Nodes of a pool that need it
// and would not have it on new ones.
func (p Pool) neededLabels(
	nodes map[string]*corev1.Node, pods []Workload, hand map[string][]string,
) map[string]map[string]bool {
	needed := map[string]map[string]bool{}
	for _, w := range pods {
		node := nodes[w.Node]
		if node == nil || w.Stays || p.Kept || !slices.Contains(p.Nodes, w.Node) {
			continue
		}
		for _, key := range hand[w.Node] {
			if p.isGiven(key) || !w.needs(node, key) {
				continue
			}
			if needed[key] == nil {
				needed[key] = map[string]bool{}
			}
			needed[key][w.Namespace+"/"+w.Name] = true
		}
	}
	return needed
}

// isGiven reports whether the bootstrap config of a pool names a label, in whatever field or command. One
// that is not known may.
func (p Pool) isGiven(key string) bool { return p.Config == "" || strings.Contains(p.Config, key) }

// needs reports whether a Pod may run on a Node, and not without one of its labels.
func (w Workload) needs(node *corev1.Node, key string) bool {
	without := *node
	without.Labels = maps.Clone(node.Labels)
	delete(without.Labels, key)
	with, err := w.Affinity.Match(node)
	left, errLeft := w.Affinity.Match(&without)
	return err == nil && errLeft == nil && with && !left
}
