package devplane

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const rendered = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: a}
---
apiVersion: v1
kind: Service
metadata: {name: a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: a}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: b}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: b}
---
apiVersion: v1
kind: Namespace
metadata: {name: ours}
`

func TestRender(t *testing.T) {
	files := filesys.MakeFsInMemory()
	for path, content := range map[string]string{
		"d/kustomization.yaml": "namespace: ours\nresources: [all.yaml]\n", "d/all.yaml": rendered,
	} {
		if err := files.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := Render(files, "d", AccessKinds...)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, data := range objects {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, object.Kind+" "+object.Namespace)
	}
	want := []string{"Namespace ", "ServiceAccount ours", "Role ours", "ClusterRole ", "ClusterRoleBinding "}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	account, err := computeAccount(objects)
	if want := (types.NamespacedName{Namespace: "ours", Name: "a"}); err != nil || account != want {
		t.Errorf("the account is %s, %v", account, err)
	}
	if account, err := computeAccount(append(objects, objects...)); err == nil {
		t.Errorf("of two accounts %s is taken", account)
	}
	rules, err := computeRules(objects)
	wantRules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}},
	}
	if diff := cmp.Diff(wantRules, rules); diff != "" || err != nil {
		t.Errorf("%v, rules (-want +got):\n%s", err, diff)
	}
	if _, err := Render(files, "none", AccessKinds...); err == nil {
		t.Error("a folder that is missing is rendered")
	}
}
