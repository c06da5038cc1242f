package app

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestInstallationFindsCRDsLater installs CRDs after the first look. They are found once the
// program looks again.
func TestInstallationFindsCRDsLater(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	now := time.Unix(0, 0)
	i := newInstallation(mapper, func() time.Time { return now })
	expect := func(want bool) {
		t.Helper()
		if found, err := i.check(); err != nil || found != want {
			t.Errorf("found %t, %v, want %t", found, err, want)
		}
	}
	expect(false)
	mapper.Add(v1alpha1.GroupVersion.WithKind("UpdatePolicy"), meta.RESTScopeNamespace)
	expect(false)
	if found, err := i.look(); err == nil {
		t.Errorf("a look at once found %t without the CRD of Updaters, want an error", found)
	}
	expect(false)
	now = now.Add(lookAgain)
	if found, err := i.check(); err == nil {
		t.Errorf("found %t without the CRD of Updaters, want an error", found)
	}
	mapper.Add(v1alpha1.GroupVersion.WithKind("Updater"), meta.RESTScopeRoot)
	expect(true)
}
