package app

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// external returns an infrastructure machine or a bootstrap config of a Machine, with fields.
func external(t *testing.T, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "Any"}}
	o.SetNamespace("ns")
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", Controller: new(true),
	}})
	for path, value := range fields {
		err := unstructured.SetNestedField(o.Object, value, strings.Split(path, " ")...)
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// initialized are the fields by which the contracts of Cluster API say that an object is
// initialized.
var initialized = []string{
	"status ready", "status initialization provisioned", "status initialization dataSecretCreated",
}

// TestExternalFields: what the Machine controller acts on comes at once, and what it passes on
// comes later. Before an object is initialized it acts on little.
func TestExternalFields(t *testing.T) {
	t.Parallel()
	const label, annotation = "metadata labels ", "metadata annotations "
	for field, tt := range map[string]struct{ initialized, otherwise urgency }{
		"spec providerID":                                 {now, soon},
		"spec failureDomain":                              {now, soon},
		"status failureDomain":                            {now, soon},
		"status addresses":                                {now, soon},
		"status interruptible":                            {now, soon},
		"status dataSecretName":                           {now, soon},
		"status failureReason":                            {now, now},
		"status failureMessage":                           {now, now},
		annotation + clusterv1.PausedAnnotation:           {now, now},
		"spec other":                                      {soon, soon},
		"status other":                                    {soon, soon},
		"metadata deletionTimestamp":                      {soon, soon},
		label + clusterv1.ClusterNameLabel:                {soon, soon},
		annotation + clusterv1.UpdateInProgressAnnotation: {soon, soon},
		annotation + clusterv1.MachineCertificatesExpiryDateAnnotation: {soon, soon},
		label + "other":             {never, never},
		annotation + "other":        {never, never},
		"metadata resourceVersion":  {never, never},
		"metadata generation":       {never, never},
		"metadata finalizers":       {never, never},
		"metadata managedFields":    {never, never},
		"status observedGeneration": {never, never},
	} {
		before, after := external(t, nil), external(t, map[string]any{field: "x"})
		if got := machineUrgency(before, after); got != tt.otherwise {
			t.Errorf("%s: urgency %d, want %d", field, got, tt.otherwise)
		}
		for _, is := range initialized {
			before := external(t, map[string]any{is: true})
			after := external(t, map[string]any{is: true, field: "x"})
			if got := machineUrgency(before, after); got != tt.initialized {
				t.Errorf("%s, with %s: urgency %d, want %d", field, is, got, tt.initialized)
			}
		}
	}
}

// TestExternalSteps: the initialization of an object comes at once, and so does its loss by the
// Machine.
func TestExternalSteps(t *testing.T) {
	t.Parallel()
	before, lost := external(t, nil), external(t, nil)
	lost.SetOwnerReferences(nil)
	for _, is := range initialized {
		done := external(t, map[string]any{is: true})
		for _, tt := range []struct{ before, after *unstructured.Unstructured }{
			{before, done}, {done, before}, {external(t, map[string]any{is: false}), done},
		} {
			if got := machineUrgency(tt.before, tt.after); got != now {
				t.Errorf("%s is another one: urgency %d, want at once", is, got)
			}
		}
		if got := machineUrgency(before, external(t, map[string]any{is: false})); got != soon {
			t.Errorf("%s is false at first: urgency %d, want later", is, got)
		}
	}
	if got := machineUrgency(before, lost); got != now {
		t.Errorf("the Machine is no owner any more: urgency %d, want at once", got)
	}
	if got := machineUrgency(lost, before); got != soon {
		t.Errorf("the Machine controller has made the Machine the owner: urgency %d, want later", got)
	}
}

// TestExternalConditions: of the conditions of an object that is initialized, only whether Ready is
// true is urgent, in each contract of Cluster API.
func TestExternalConditions(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"conditions", "v1beta2 conditions", "deprecated v1beta1 conditions"} {
		object := func(is bool, kind, status, message string) *unstructured.Unstructured {
			return external(t, map[string]any{
				"status initialization": map[string]any{"provisioned": is},
				"status " + path: []any{
					map[string]any{"type": kind, "status": status, "message": message},
				},
			})
		}
		one := object(true, "Ready", "False", "one")
		for name, tt := range map[string]struct {
			before, after *unstructured.Unstructured
			want          urgency
		}{
			"it is ready":         {one, object(true, "Ready", "True", "one"), now},
			"it is not":           {object(true, "Ready", "True", "one"), one, now},
			"nobody knows":        {one, object(true, "Ready", "Unknown", "one"), soon},
			"Ready's words":       {one, object(true, "Ready", "False", "two"), soon},
			"nothing, it resyncs": {one, one, never},
			"another one": {
				object(true, "Other", "False", "one"), object(true, "Other", "True", "two"), never,
			},
			"it is not initialized": {
				object(false, "Ready", "False", "one"), object(false, "Ready", "True", "one"), soon,
			},
		} {
			if got := machineUrgency(tt.before, tt.after); got != tt.want {
				t.Errorf("%s, %s: urgency %d, want %d", path, name, got, tt.want)
			}
		}
	}
}

// TestExternalDelay: an update in place waits no longer than rolloutDelay for the mark of an
// object.
func TestExternalDelay(t *testing.T) {
	t.Parallel()
	plain := external(t, nil)
	marked := external(t, map[string]any{
		"metadata annotations " + clusterv1.UpdateInProgressAnnotation: "",
	})
	for name, tt := range map[string]struct {
		before, after *unstructured.Unstructured
		want          time.Duration
	}{
		"the mark":              {plain, marked, rolloutDelay},
		"the end of the update": {marked, plain, externalDelay},
		"anything else":         {plain, plain, externalDelay},
	} {
		if got := machineDelay(tt.before, tt.after); got != tt.want {
			t.Errorf("%s waits for %s, want %s", name, got, tt.want)
		}
	}
}
