package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// clusterAPI returns the folder of Cluster API's sources.
func clusterAPI(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	dir, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}

// TestMigratedKinds holds the kinds whose stored objects are migrated against the rights that Cluster API's manifests give for it.
func TestMigratedKinds(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile(filepath.Join(clusterAPI(t), "core", "config", "rbac", "role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(manifest, &role); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, "customresourcedefinitions/status") {
			allowed = rule.ResourceNames
		}
	}
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	var migrated []string
	for object := range computeMigrations(func(featuregate.Feature) bool { return true }) {
		gvk, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			t.Fatal(err)
		}
		migrated = append(migrated, contract.CalculateCRDName(gvk.Group, gvk.Kind))
	}
	slices.Sort(migrated)
	slices.Sort(allowed)
	if diff := cmp.Diff(allowed, migrated); diff != "" {
		t.Errorf("migrated kinds (-allowed +migrated):\n%s", diff)
	}
	if all, few := len(migrated), len(computeMigrations(func(featuregate.Feature) bool { return false })); all-few != 3 {
		t.Errorf("%d kinds with all feature gates, %d without", all, few)
	}
}

// TestFieldManager: the API server names the owner of fields after the first word of the User-Agent. Cluster API's image calls its program manager.
func TestFieldManager(t *testing.T) {
	t.Parallel()
	in := &rest.Config{Host: "h"}
	o := DefaultManagerOptions()
	o.Version = "v9"
	out := o.completeRESTConfig(in)
	if owner, _, _ := strings.Cut(out.UserAgent, "/"); owner != "manager" || !strings.Contains(out.UserAgent, "manager/v9 cluster-api-controller-manager ") {
		t.Errorf("the User-Agent is %q", out.UserAgent)
	}
	if out.QPS != 100 || out.Burst != 200 || out.Host != "h" {
		t.Errorf("the limits are %v and %v", out.QPS, out.Burst)
	}
	if in.UserAgent != "" || in.QPS != 0 {
		t.Error("the input was changed")
	}
}

// TestCheckLeads keeps calls of the extension from a replica that does not serve it, and readiness from standing in the way of a rollout.
func TestCheckLeads(t *testing.T) {
	t.Parallel()
	waiting, leads := make(chan struct{}), make(chan struct{})
	close(leads)
	for _, tt := range []struct {
		name    string
		elected <-chan struct{}
		runs    time.Duration
		ready   bool
	}{
		{"a new replica", waiting, 0, true},
		{"while the caches are read", waiting, cacheSyncTimeout, true},
		{"one that goes on waiting", waiting, cacheSyncTimeout + time.Second, false},
		{"the leader", leads, 0, true},
		{"the leader later", leads, 24 * time.Hour, true},
	} {
		if err := checkLeads(tt.elected, tt.runs); (err == nil) != tt.ready {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSecretMetadata(t *testing.T) {
	t.Parallel()
	secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "s", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	got, err := secretMetadata(secret)
	if kept, ok := got.(*metav1.PartialObjectMetadata); err != nil || !ok || kept.Name != "s" || kept.ManagedFields != nil {
		t.Errorf("%v, %v", got, err)
	}
	other := secret.DeepCopy()
	other.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for _, object := range []any{other, &corev1.Secret{}, "text"} {
		if kept, err := secretMetadata(object); err == nil {
			t.Errorf("%T was kept: %v", object, kept)
		}
	}
}
