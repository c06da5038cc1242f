package contract

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestSelectAPIVersion(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"none":                          {},
		"other labels":                  {labels: map[string]string{"cluster.x-k8s.io/provider": "x"}},
		"empty":                         {labels: map[string]string{"cluster.x-k8s.io/v1beta2": ""}},
		"one":                           {labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta1"}, want: "v1beta1"},
		"an older contract":             {labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v1alpha4_v1beta1"}, want: "v1beta1"},
		"the latest contract counts":    {labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v2", "cluster.x-k8s.io/v1beta2": "v1beta1"}, want: "v1beta1"},
		"an empty one does not":         {labels: map[string]string{"cluster.x-k8s.io/v1beta1": "v1", "cluster.x-k8s.io/v1beta2": ""}, want: "v1"},
		"a contract that is not kept":   {labels: map[string]string{"cluster.x-k8s.io/v1alpha4": "v1alpha4"}},
		"stable is later than beta":     {labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1_v2beta1_v1alpha9"}, want: "v1"},
		"numbers are compared as such":  {labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta9_v1beta10_v1beta2"}, want: "v1beta10"},
		"whatever the order in a label": {labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2_v1beta1"}, want: "v1beta2"},
	} {
		if got := selectAPIVersion(tt.labels); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestSelectVersion asks often, because what depends on the order of a map shows only now and then.
func TestSelectVersion(t *testing.T) {
	t.Parallel()
	labels := map[string]string{
		"cluster.x-k8s.io/v1alpha4": "v1alpha4_v1beta1_v1beta2", "cluster.x-k8s.io/v1beta1": "v1beta1_v1beta2", "cluster.x-k8s.io/v1beta2": "v1beta2_v1",
		"cluster.x-k8s.io/provider": "v1beta1",
	}
	for version, want := range map[string]string{
		"v1": V1Beta2, "v1beta2": V1Beta2, "v1beta1": V1Beta1, "v1alpha4": "", "v1beta": "", "": "",
	} {
		for range 50 {
			if got := selectVersion(labels, version); got != want {
				t.Fatalf("%q: contract %q, want %q", version, got, want)
			}
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crd := func(name string, labels map[string]string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		crd("devmachines.infrastructure.cluster.x-k8s.io", map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta1_v1beta2"}),
		crd("plainmachines.infrastructure.cluster.x-k8s.io", nil),
	).Build()
	kind := func(name string) schema.GroupKind {
		return schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: name}
	}
	if got, err := FetchAPIVersion(t.Context(), c, kind("DevMachine")); err != nil || got != "infrastructure.cluster.x-k8s.io/v1beta2" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := FetchVersion(t.Context(), c, kind("DevMachine").WithVersion("v1beta1")); err != nil || got != V1Beta2 {
		t.Errorf("%q, %v", got, err)
	}
	for _, tt := range []struct {
		kind, version string
		crd           string
	}{
		{kind: "PlainMachine", crd: "plainmachines.infrastructure.cluster.x-k8s.io"},
		{kind: "PlainMachine", version: "v1beta1", crd: "plainmachines.infrastructure.cluster.x-k8s.io"},
		{kind: "DevMachine", version: "v1alpha4", crd: "devmachines.infrastructure.cluster.x-k8s.io"},
		{kind: "NoMachine"},
		{kind: "NoMachine", version: "v1beta1"},
	} {
		var err error
		if tt.version == "" {
			_, err = FetchAPIVersion(t.Context(), c, kind(tt.kind))
		} else {
			_, err = FetchVersion(t.Context(), c, kind(tt.kind).WithVersion(tt.version))
		}
		if tt.crd == "" {
			if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "nomachines.infrastructure") {
				t.Errorf("%s without CRD: %v", tt.kind, err)
			}
			continue
		}
		none, ok := errors.AsType[*NotDeclaredError](err)
		if !ok || *none != (NotDeclaredError{CRD: tt.crd, Version: tt.version}) || !strings.Contains(err.Error(), "cluster.x-k8s.io/v1beta2, cluster.x-k8s.io/v1beta1") {
			t.Errorf("%s %s: %v", tt.kind, tt.version, err)
		}
	}
}
