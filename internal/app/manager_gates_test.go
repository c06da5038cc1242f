package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// TestSeesGates: UpgradeGates are watched where that can succeed; a right that is missing is named.
func TestSeesGates(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "upgradegates"}, "", errors.New("no"))
	for name, tt := range map[string]struct {
		installed   bool
		list        error
		sees, fails bool
		logs        string
	}{
		"installed":     {installed: true, sees: true},
		"not installed": {list: errors.New("asked")},
		"forbidden":     {installed: true, list: forbidden, logs: "config/manager/role.yaml"},
		"away":          {installed: true, list: errors.New("connection refused"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mapper := meta.NewDefaultRESTMapper(nil)
			if tt.installed {
				mapper.Add(v1alpha1.GroupVersion.WithKind("UpgradeGate"), meta.RESTScopeNamespace)
			}
			live := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return tt.list
				},
			})
			var logged strings.Builder
			log := funcr.New(func(_, args string) { logged.WriteString(args) }, funcr.Options{})
			sees, err := seesGates(t.Context(), mapper, live, log)
			if sees != tt.sees || (err != nil) != tt.fails || !strings.Contains(logged.String(), tt.logs) {
				t.Errorf("%t, %v, logged %s", sees, err, &logged)
			}
		})
	}
}
