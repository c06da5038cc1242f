package rights

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Request is what RBAC knows of a request about a resource.
type Request struct {
	Verb, Group string
	// Resource has its subresource after a slash.
	Resource string
	// Name and Namespace are empty where the request names none.
	Namespace, Name string
}

// String returns "patch machines/status.cluster.x-k8s.io demo/worker-1".
func (r Request) String() string {
	text := r.Verb + " " + resourceName(r.Resource, r.Group)
	if object := strings.Trim(r.Namespace+"/"+r.Name, "/"); object != "" {
		text += " " + object
	}
	return text
}

// rule is the narrowest rule that allows a request in a namespace.
func (r Request) rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{
		APIGroups: []string{r.Group}, Resources: []string{r.Resource}, Verbs: []string{r.Verb},
	}
	if r.Name != "" {
		rule.ResourceNames = []string{r.Name}
	}
	return rule
}

// Grant is the smallest part of a rule: one verb on one resource, and on one name where the rule has names.
type Grant struct {
	// Role is its kind and name.
	Role string
	// Namespace is that of a Role; empty for a ClusterRole, which is taken as bound in all namespaces.
	Namespace string
	// Rule has one verb, and one group, resource and name or one URL.
	Rule rbacv1.PolicyRule
}

// String returns "ClusterRole windlass-extension: patch machines/status.cluster.x-k8s.io".
func (g Grant) String() string {
	words := append([]string{g.Role + ":"}, g.Rule.Verbs...)
	for i, resource := range g.Rule.Resources {
		words = append(words, resourceName(resource, g.Rule.APIGroups[i]))
	}
	return strings.Join(slices.Concat(words, g.Rule.ResourceNames, g.Rule.NonResourceURLs), " ")
}

func resourceName(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// Grants returns the grants of all roles among encoded objects, sorted. A role that aggregates others
// grants nothing by itself.
func Grants(objects []json.RawMessage) ([]Grant, error) {
	var grants []Grant
	for _, data := range objects {
		var role rbacv1.ClusterRole
		if err := json.Unmarshal(data, &role.TypeMeta); err != nil {
			return nil, fmt.Errorf("decoding an object: %w", err)
		}
		if role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		if err := json.Unmarshal(data, &role); err != nil {
			return nil, fmt.Errorf("decoding a %s: %w", role.Kind, err)
		}
		for _, rule := range role.Rules {
			for _, part := range validation.BreakdownRule(rule) {
				grants = append(grants, Grant{Role: role.Kind + " " + role.Name, Namespace: role.Namespace, Rule: part})
			}
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int { return cmp.Compare(a.String(), b.String()) })
	return grants, nil
}

// Unused returns the grants that no request used, in their order.
func Unused(grants []Grant, requests []Request) []Grant {
	var unused []Grant
	for _, grant := range grants {
		if !slices.ContainsFunc(requests, grant.allows) {
			unused = append(unused, grant)
		}
	}
	return unused
}

func (g Grant) allows(r Request) bool {
	if g.Namespace != "" && g.Namespace != r.Namespace {
		return false
	}
	allowed, _ := validation.Covers([]rbacv1.PolicyRule{g.Rule}, []rbacv1.PolicyRule{r.rule()})
	return allowed
}
