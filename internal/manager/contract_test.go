package manager

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestFetchAPIVersion(t *testing.T) {
	t.Parallel()
	scheme, err := newScheme()
	if err != nil {
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
	if got, err := fetchAPIVersion(t.Context(), c, kind("DevMachine")); err != nil || got != "infrastructure.cluster.x-k8s.io/v1beta2" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = fetchAPIVersion(t.Context(), c, kind("PlainMachine"))
	if none := (*NoContractError)(nil); !errors.As(err, &none) || !strings.Contains(err.Error(), "plainmachines.infrastructure.cluster.x-k8s.io") || !strings.Contains(err.Error(), "cluster.x-k8s.io/v1beta2, cluster.x-k8s.io/v1beta1") {
		t.Errorf("without labels: %v", err)
	}
	if _, err := fetchAPIVersion(t.Context(), c, kind("NoMachine")); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "nomachines.infrastructure") {
		t.Errorf("without CRD: %v", err)
	}
}
