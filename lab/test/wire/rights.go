package wire

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// Account is the user name of the extension's ServiceAccount.
const Account = "system:serviceaccount:windlass-system:windlass-extension"

// Impersonation acts as the extension's ServiceAccount.
var Impersonation = rest.ImpersonationConfig{UserName: Account, Groups: []string{
	"system:serviceaccounts", "system:serviceaccounts:windlass-system", "system:authenticated",
}}

// Install creates the objects of a kustomization below config that are of these kinds, until the
// test ends. Those that need a namespace and name none get this one.
func (p *Plane) Install(t *testing.T, folder, namespace string, kinds ...string) {
	t.Helper()
	source, err := devplane.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(source, "config", folder))
	if err != nil {
		t.Fatal(err)
	}
	installed := 0
	for _, resource := range built.Resources() {
		if !slices.Contains(kinds, resource.GetKind()) {
			continue
		}
		fields, err := resource.Map()
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{Object: fields}
		if resource.GetKind() == "RoleBinding" && object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		p.CreateForTest(t, object)
		installed++
	}
	if installed == 0 {
		t.Fatalf("%s has none of %q", folder, kinds)
	}
}

// CreateForTest creates an object, without its status, that no namespace separates from those of other tests, and
// deletes it when the test ends.
func (p *Plane) CreateForTest(t *testing.T, object client.Object) {
	t.Helper()
	if err := p.Client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
	t.Cleanup(func() {
		err := p.Client.Delete(context.WithoutCancel(t.Context()), object)
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// Restricted installs the roles of config/default, and returns a plane whose processes have no other
// rights. Its Client still has full rights.
func (p *Plane) Restricted(t *testing.T) *Plane {
	t.Helper()
	p.Install(t, "default", "", "ClusterRole", "ClusterRoleBinding")
	kubeconfig, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate, user.ImpersonateGroups = Impersonation.UserName, Impersonation.Groups
	}
	restricted := *p
	restricted.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, restricted.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return &restricted
}
