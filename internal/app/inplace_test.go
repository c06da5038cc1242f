package app

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

// onlyMapper is a manager of which nothing but its mapper and its log may be used.
type onlyMapper struct {
	manager.Manager
	mapper meta.RESTMapper
}

func (m onlyMapper) GetRESTMapper() meta.RESTMapper { return m.mapper }
func (onlyMapper) GetLogger() logr.Logger           { return logr.Discard() }

// TestSetUpUpdates makes no engine where nothing is installed.
func TestSetUpUpdates(t *testing.T) {
	t.Parallel()
	none, half := meta.NewDefaultRESTMapper(nil), meta.NewDefaultRESTMapper(nil)
	half.Add(v1alpha1.GroupVersion.WithKind("UpdatePolicy"), meta.RESTScopeNamespace)
	for name, tt := range map[string]struct {
		options InPlaceUpgrades
		mapper  meta.RESTMapper
		err     string
	}{
		"off":              {options: InPlaceUpgrades{Off: true}, mapper: none},
		"not installed":    {mapper: none},
		"half of the CRDs": {mapper: half, err: "kubectl apply -k config/crd"},
	} {
		e, err := setUpUpdates(t.Context(), onlyMapper{mapper: tt.mapper}, tt.options, nil, nil, nil)
		if e != nil || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInPlaceUpgradesCheck refuses a prefix with which there would be no annotations.
func TestInPlaceUpgradesCheck(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"": "", v1alpha1.DefaultInPlaceUpgradePrefix: "", "example.com/": "", "example.com/upgrade-": "", "upgrade-": "no domain",
		"a b/": "the prefix", "a/b/": "the prefix", "example.com/" + strings.Repeat("x", 60): "the prefix",
	} {
		err := InPlaceUpgrades{Prefix: prefix}.Check()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}
