package guardwebhook_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/windlass-dev/windlass/api/v1alpha1"
)

func TestGuard(t *testing.T) {
	for name, test := range map[string]struct {
		change    func(*world)
		operation admissionv1.Operation
		object    func(*world) any
		allowed   bool
		words     string
	}{
		"worker deleted":                {nil, admissionv1.Delete, (*world).worker, false, "would replace Machine w-0 of MachineDeployment default/c-md"},
		"worker created":                {nil, admissionv1.Create, (*world).newWorker, false, "beyond spec.replicas 3 of MachineDeployment default/c-md"},
		"control plane machine deleted": {nil, admissionv1.Delete, (*world).plane, false, "would replace Machine p-0 of KubeadmControlPlane default/c-cp"},
		"control plane machine created": {nil, admissionv1.Create, (*world).newPlane, false, "beyond spec.replicas 3 of KubeadmControlPlane default/c-cp"},
		"scaled down":                   {func(w *world) { w.scale(2) }, admissionv1.Delete, (*world).worker, true, "Surplus"},
		"scaled up":                     {func(w *world) { w.scale(4) }, admissionv1.Create, (*world).newWorker, true, "Missing"},
		"another Machine is being deleted": {
			func(w *world) { w.startDeleting(w.machine("w-1")) }, admissionv1.Create, (*world).newWorker, true, "Missing",
		},
		"another Machine is being deleted, and this one too": {
			func(w *world) { w.startDeleting(w.machine("w-1")) }, admissionv1.Delete, (*world).worker, false, "would replace",
		},
		"the Cluster is being deleted": {
			func(w *world) { w.startDeleting(&clusterv1.Cluster{ObjectMeta: meta("c", nil, nil)}) }, admissionv1.Delete, (*world).worker, true, "ClusterGone",
		},
		"the Cluster is gone": {
			func(w *world) { w.remove(&clusterv1.Cluster{ObjectMeta: meta("c", nil, nil)}) }, admissionv1.Delete, (*world).plane, true, "ClusterGone",
		},
		"the MachineDeployment is being deleted": {func(w *world) { w.startDeleting(deployment()) }, admissionv1.Delete, (*world).worker, true, "GroupDeleting"},
		"the MachineDeployment is gone":          {func(w *world) { w.remove(deployment()) }, admissionv1.Delete, (*world).worker, true, "NoGroup"},
		"the control plane is being deleted":     {func(w *world) { w.startDeleting(controlPlane()) }, admissionv1.Delete, (*world).plane, true, "GroupDeleting"},
		"the control plane is gone":              {func(w *world) { w.remove(controlPlane()) }, admissionv1.Delete, (*world).plane, true, "NoGroup"},
		"a lone MachineSet":                      {nil, admissionv1.Delete, func(w *world) any { return w.machine("s-0") }, true, "NoGroup"},
		"a MachinePool":                          {nil, admissionv1.Delete, func(w *world) any { return w.machine("pool-0") }, true, "NoGroup"},
		"a Machine by itself":                    {nil, admissionv1.Create, func(*world) any { return machine("x", nil, nil) }, true, "NoGroup"},
		"a worker without its label": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			delete(m.Labels, clusterv1.MachineDeploymentNameLabel)
			return m
		}, false, "would replace Machine w-0"},
		"a control plane machine with the label of a MachineDeployment": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("p-0")
			m.Labels[clusterv1.MachineDeploymentNameLabel] = "c-md"
			return m
		}, false, "KubeadmControlPlane default/c-cp"},
		"a worker with the label of a control plane": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Labels[clusterv1.MachineControlPlaneLabel] = ""
			return m
		}, false, "MachineDeployment default/c-md"},
		"a worker with the label of a MachinePool": {
			nil, admissionv1.Delete, func(w *world) any { return pooled(w.machine("w-0")) }, false, "would replace Machine w-0",
		},
		"a control plane machine with the label of a MachinePool": {
			nil, admissionv1.Delete, func(w *world) any { return pooled(w.machine("p-0")) }, false, "would replace Machine p-0",
		},
		"a new worker with the label of a MachinePool": {
			nil, admissionv1.Create, func(*world) any { return pooled(newWorker()) }, false, "beyond spec.replicas 3",
		},
		"may be replaced": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""}
			return m
		}, true, "ReplacementAllowed"},
		"successor of one that may be replaced": {func(w *world) {
			m := w.machine("p-0")
			w.update(m, func() { m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""} })
		}, admissionv1.Create, (*world).newPlane, true, "ReplacementAllowed"},
		"remediation asked for by hand": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
			return m
		}, true, "Remediation"},
		"unhealthy": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Status.Conditions = []metav1.Condition{
				{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse},
				{Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse},
			}
			return m
		}, true, "Remediation"},
		"unhealthy, but not to be remediated": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse}}
			return m
		}, false, "would replace"},
		"in place at the moment": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			return m
		}, false, "which is being updated in place"},
		"deleted again": {func(w *world) { w.startDeleting(w.machine("w-0")) }, admissionv1.Delete, (*world).worker, true, "AlreadyDeleting"},
		"clusterctl move": {nil, admissionv1.Delete, func(w *world) any {
			m := w.machine("w-0")
			m.Annotations = map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""}
			return m
		}, true, "Moving"},
		"v1beta1": {nil, admissionv1.Delete, func(*world) any { return oldMachine(nil) }, false, "would replace Machine w-0"},
		"v1beta1, unhealthy by the newer conditions": {nil, admissionv1.Delete, func(*world) any {
			return oldMachine(map[string]any{"conditions": []any{}, "v1beta2": map[string]any{"conditions": unhealthy()}})
		}, true, "Remediation"},
		"v1beta1, unhealthy by the older conditions": {nil, admissionv1.Delete, func(*world) any {
			return oldMachine(map[string]any{"conditions": unhealthy()})
		}, true, "Remediation"},
		"v1beta1, unhealthy by the older conditions only": {nil, admissionv1.Delete, func(*world) any {
			return oldMachine(map[string]any{"conditions": unhealthy(), "v1beta2": map[string]any{}})
		}, false, "would replace"},
		"MachineDeployment without replicas has one": {func(w *world) {
			md := deployment()
			w.update(md, func() { md.Spec.Replicas = nil })
		}, admissionv1.Delete, (*world).worker, true, "Surplus"},
		"control plane without replicas": {nil, admissionv1.Delete, func(w *world) any { return w.foreignPlane() }, false, "TalosControlPlane default/talos has no spec.replicas"},
		"an update":                      {nil, admissionv1.Update, (*world).worker, true, "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if test.change != nil {
				test.change(w)
			}
			expect(t, w.ask(test.operation, test.object(w)), test.allowed, test.words)
		})
	}
}

// pooled adds the label of a MachinePool to a Machine.
func pooled(m *clusterv1.Machine) *clusterv1.Machine {
	m.Labels[clusterv1.MachinePoolNameLabel] = "c-mp"
	return m
}

func TestPolicies(t *testing.T) {
	t.Run("none keeps machines", func(t *testing.T) {
		w := newWorld(t, newPolicy("replace", func(s *v1alpha1.UpdatePolicySpec) { s.Strategy, s.Fallback = v1alpha1.RollingUpdate, "" }))
		w.remove(newPolicy("keep", nil))
		expect(t, w.ask(admissionv1.Delete, w.machine("w-0")), true, "NotGuarded")
		if w.reads != 0 {
			t.Errorf("%d live reads for a namespace where no policy keeps machines", w.reads)
		}
	})
	t.Run("one for the control plane only", func(t *testing.T) {
		w := newWorld(t, newPolicy("plane", func(s *v1alpha1.UpdatePolicySpec) { s.Targets[0].ControlPlane = true }))
		w.remove(newPolicy("keep", nil))
		expect(t, w.ask(admissionv1.Delete, w.machine("w-0")), true, "NotGuarded")
		expect(t, w.ask(admissionv1.Delete, w.machine("p-0")), false, "UpdatePolicy plane keeps machines")
	})
	t.Run("a more precise one replaces", func(t *testing.T) {
		w := newWorld(t, newPolicy("workers", func(s *v1alpha1.UpdatePolicySpec) {
			s.Targets[0].MachineDeployments, s.Strategy, s.Fallback = []v1alpha1.MachineDeploymentName{"md"}, v1alpha1.RollingUpdate, ""
		}))
		expect(t, w.ask(admissionv1.Delete, w.machine("w-0")), true, "NotGuarded")
		expect(t, w.ask(admissionv1.Delete, w.machine("p-0")), false, "UpdatePolicy keep keeps machines")
	})
	t.Run("a conflict", func(t *testing.T) {
		w := newWorld(t, newPolicy("second", nil))
		expect(t, w.ask(admissionv1.Delete, w.machine("w-0")), false, `UpdatePolicies "keep", "second"`)
		want := []string{"MachineDeployment c-md, Machine w-0, Warning, PolicyConflict, GuardMachine"}
		if diff := cmp.Diff(want, w.recorder.events); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("one that cannot be used", func(t *testing.T) {
		w := newWorld(t, newPolicy("broken", func(s *v1alpha1.UpdatePolicySpec) {
			s.Targets[0].Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}
		}))
		expect(t, w.ask(admissionv1.Delete, w.machine("w-0")), false, "broken")
	})
}

func TestReadsThatFail(t *testing.T) {
	refused := apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("things").GroupResource(), "x", errors.New("no rule"))
	for kind, object := range map[string]func(*world) any{
		"Cluster": (*world).worker, "MachineDeployment": (*world).worker, "MachineList": (*world).worker, "KubeadmControlPlane": (*world).plane,
		"MachineSet": func(w *world) any { return w.machine("s-0") },
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.fail[kind] = refused
			response := w.ask(admissionv1.Delete, object(w))
			expect(t, response, false, "no rule")
			if response.Result.Code != http.StatusInternalServerError {
				t.Errorf("code %d", response.Result.Code)
			}
			if diff := cmp.Diff(map[string]float64{"delete ReadFailed": 1}, w.denials()); diff != "" {
				t.Error(diff)
			}
			// A person's word needs no reading.
			m := w.machine("w-0")
			m.Annotations = map[string]string{v1alpha1.AllowReplacementAnnotation: ""}
			expect(t, w.ask(admissionv1.Delete, m), true, "ReplacementAllowed")
		})
	}
}

func TestGarbage(t *testing.T) {
	w := newWorld(t)
	for name, edit := range map[string]func(*admission.Request){
		"nothing": func(r *admission.Request) { r.OldObject.Raw = nil },
		"no JSON": func(r *admission.Request) { r.OldObject.Raw = []byte("{") },
		"a list":  func(r *admission.Request) { r.OldObject.Raw = []byte("[]") },
		"null":    func(r *admission.Request) { r.OldObject.Raw = []byte("null") },
		"wrong types": func(r *admission.Request) {
			r.OldObject.Raw = []byte(`{"metadata":{"name":"a"},"spec":{"clusterName":7}}`)
		},
		"no cluster":     func(r *admission.Request) { r.OldObject.Raw = []byte(`{"metadata":{"name":"a"}}`) },
		"no name":        func(r *admission.Request) { r.OldObject.Raw = []byte(`{"spec":{"clusterName":"c"}}`) },
		"odd conditions": func(r *admission.Request) { r.OldObject.Raw = []byte(`{"status":{"conditions":{}}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			response := w.ask(admissionv1.Delete, w.machine("w-0"), edit)
			expect(t, response, false, "Machine")
			if response.Result.Code != http.StatusBadRequest {
				t.Errorf("code %d", response.Result.Code)
			}
		})
	}
}

// Every denial is counted; the Events of one cause are equal but for their note, so that they become one.
func TestDenialsAreReported(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.ask(admissionv1.Delete, w.machine("w-0"))
		md := deployment()
		w.update(md, func() { md.Annotations = map[string]string{"changed": fmt.Sprint(i)} })
		created := newWorker()
		created.Name = fmt.Sprintf("w-new-%d", i)
		w.ask(admissionv1.Create, created)
	}
	w.ask(admissionv1.Delete, w.machine("w-0"), dryRun)
	w.ask(admissionv1.Delete, nil, dryRun)
	const deleted = "MachineDeployment c-md, Machine w-0, Warning, WouldReplace, GuardMachine"
	const created = "MachineDeployment c-md, -, Warning, WouldSurge, GuardMachine"
	if diff := cmp.Diff([]string{deleted, created, deleted, created, deleted, created}, w.recorder.events); diff != "" {
		t.Error(diff)
	}
	if w.recorder.longest == 0 || w.recorder.longest > 1024 {
		t.Errorf("a note has %d bytes; the API server takes 1024", w.recorder.longest)
	}
	if diff := cmp.Diff(map[string]float64{"delete WouldReplace": 3, "create WouldSurge": 3}, w.denials()); diff != "" {
		t.Error(diff)
	}
}
