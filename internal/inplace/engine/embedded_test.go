package engine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/record"
)

// rke2Config is an RKE2Config as CAPRKE2 v0.25 sends it.
func rke2Config(spec string) []byte {
	return []byte(`{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"RKE2Config",` +
		`"metadata":{"namespace":"ns","name":"cp"},"spec":` + spec + `}`)
}

const (
	rke2Before = `{"agentConfig":{"nodeLabels":["a=b"],"airGapped":true},"gzipUserData":false}`
	rke2After  = `{"agentConfig":{"nodeLabels":["a=c"]},"gzipUserData":false}`
)

// newRKE2 is a world with an RKE2ControlPlane, whose spec embeds that of an RKE2Config, and one Machine
// that Cluster API reports as outdated.
func newRKE2(t *testing.T) (*world, *scripted) {
	t.Helper()
	cp := controlPlane()
	cp.SetKind("RKE2ControlPlane")
	spec, ok := cp.Object["spec"].(map[string]any)
	if !ok {
		t.Fatal("the control plane has no spec")
	}
	delete(spec, "kubeadmConfigSpec")
	// The false is one that Go types omit.
	spec["agentConfig"] = map[string]any{"nodeLabels": []any{"a=c"}, "airGapped": false}
	spec["gzipUserData"], spec["replicas"] = false, int64(3)
	spec["serverConfig"] = map[string]any{"cni": "cilium"}
	m := controlPlaneMachine("cp", from)
	m.OwnerReferences[0].Kind, m.Spec.Bootstrap.ConfigRef.Kind = "RKE2ControlPlane", "RKE2Config"
	m.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse,
		Reason: clusterv1.MachineNotUpToDateReason,
	}}
	w := newWorld(t, external(nil), cp, m)
	s := w.updater("rke2", 0, versionPatch)
	w.node("cp", from)
	w.putObject([]byte(infrastructureMachine), "cp")
	w.putObject(rke2Config(rke2Before), "cp")
	w.putObject([]byte(templateWith("DevMachineTemplate", "{}")), "cp")
	return w, s
}

func askRKE2(w *world, desired string) (string, error) {
	w.Helper()
	objects := func(v, config string) runtimehooksv1.CanUpdateMachineRequestObjects {
		m := w.machine("cp").DeepCopy()
		m.Spec.Version = v
		return runtimehooksv1.CanUpdateMachineRequestObjects{
			Machine: *m, InfrastructureMachine: runtime.RawExtension{Raw: []byte(infrastructureMachine)},
			BootstrapConfig: runtime.RawExtension{Raw: rke2Config(config)},
		}
	}
	answer, err := w.engine.CanUpdateMachine(w.Context(), &runtimehooksv1.CanUpdateMachineRequest{
		Current: objects(from, rke2Before), Desired: objects(to, desired),
	})
	return answer.Message, err
}

// TestEmbeddedConfig: a control plane whose spec embeds the bootstrap config asks for the config's
// changes, and for no others.
func TestEmbeddedConfig(t *testing.T) {
	t.Parallel()
	t.Run("covered", func(t *testing.T) {
		t.Parallel()
		w, s := newRKE2(t)
		s.bootstrap = `{"spec":{"agentConfig":{"nodeLabels":["a=c"],"airGapped":null}}}`
		said, err := askRKE2(w, rke2After)
		if err != nil || said != "updated in place by rke2" {
			t.Errorf("answer %q, error %v", said, err)
		}
		if got := record.DecisionsOf(w.machine("cp").Annotations); len(got) != 1 {
			t.Errorf("decisions %+v", got)
		}
	})
	t.Run("another change", func(t *testing.T) {
		t.Parallel()
		w, s := newRKE2(t)
		s.err = errors.New("the updater was asked")
		for _, forged := range []string{
			strings.Replace(rke2After, "a=c", "evil", 1),
			strings.Replace(rke2After, `"gzipUserData"`, `"files":[{"path":"/etc/cron.d/evil"}],"gzipUserData"`, 1),
			strings.Replace(rke2After, `"gzipUserData":false`, `"gzipUserData":true`, 1),
		} {
			_, err := askRKE2(w, forged)
			if u, ok := errors.AsType[*UnaskedError](err); !ok || u.Reason != DesiredDiffers {
				t.Errorf("%s: error %v, want %s", forged, err, DesiredDiffers)
			}
		}
	})
}

// TestBlockedMachineShowsWhy: the condition is on the Machine if its control plane cannot have one. It
// goes when Cluster API reports the Machine up to date, also for another process.
func TestBlockedMachineShowsWhy(t *testing.T) {
	t.Parallel()
	w, _ := newRKE2(t)
	for range 3 {
		_, err := askRKE2(w, rke2After)
		r, ok := errors.AsType[*RefusedError](err)
		if !ok || r.Reason != v1alpha1.NotCoveredReason ||
			!strings.Contains(r.Message, "no updater covers BootstrapConfig /spec/agentConfig") {
			t.Fatalf("error %v, want that no updater covers the change", err)
		}
		w.now = w.now.Add(time.Minute)
	}
	c := w.conditionOf("cp")
	if c == nil || c.Reason != v1alpha1.NotCoveredReason || !strings.Contains(c.Message, "/spec/agentConfig") {
		t.Fatalf("condition %+v", c)
	}
	for _, upToDate := range []bool{false, true} {
		if m := w.machine("cp"); upToDate {
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
				Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue,
				Reason: clusterv1.MachineUpToDateReason,
			})
			w.must(w.client.Status().Update(t.Context(), m))
		}
		w.engine.blocked = newBlockedSet()
		w.must(w.engine.FindBlocked(t.Context(), []schema.GroupVersionKind{machineKind}))
		w.must(w.engine.Unblock(t.Context()))
		// The fake API server has one owner for the whole list, so the condition itself stays.
		if left := w.engine.blocked.list(); (len(left) == 0) != upToDate {
			t.Errorf("up to date %t: still blocked are %v", upToDate, left)
		}
	}
}
