package guard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/test/wire"
)

// TestExtensionDown measures which Machines can be created and deleted while the extension is down: all but those that a policy keeps.
// GitOps tools that apply the guard's manifest again meanwhile change nothing about that.
func TestExtensionDown(t *testing.T) {
	p := wire.Start(t)
	none, all, some, out := p.Namespace(t), p.Namespace(t), p.Namespace(t), p.Namespace(t)
	for _, namespace := range []string{none, all, some, out} {
		cluster(t, p, namespace, "prod", "db", "web")
		cluster(t, p, namespace, "dev", "db")
		p.Create(t, machine(namespace, "prod", "alone", nil), machine(namespace, "prod", "pool", pooled(nil)))
		// The label of a MachinePool unprotects no Machine of another group.
		p.Create(t, machine(namespace, "prod", "db-pool", pooled(worker("prod-db"))),
			machine(namespace, "dev", "cp-pool", pooled(map[string]string{clusterv1.MachineControlPlaneLabel: ""})))
		// Nor does the label of a MachineDeployment, or its absence.
		both := worker("dev-db")
		both[clusterv1.MachineControlPlaneLabel] = ""
		p.Create(t, machine(namespace, "dev", "both", both), ofSet(t, p, machine(namespace, "prod", "bare", nil)))
	}
	exclude(t, p, out)
	keepAll := policy(all, "keep", v1alpha1.UpdateTarget{})
	keepSome := policy(some, "keep", v1alpha1.UpdateTarget{ClusterName: "prod", MachineDeployments: []v1alpha1.MachineDeploymentName{"prod-db"}})
	p.Create(t, keepAll, keepSome, policy(out, "keep", v1alpha1.UpdateTarget{}),
		policy(some, "keep-control-plane", v1alpha1.UpdateTarget{ClusterName: "dev", ControlPlane: true}))
	e := p.Run(t)
	config := register(t, p, e)
	awaitGuarding(t, p, keepAll, "True")
	awaitGuarding(t, p, keepSome, "True")
	awaitRegistration(t, p, "the guard is asked about what policies keep, and nothing else", func(conditions string) bool {
		return strings.Contains(conditions, some+"/prod/md/prod-db") && !strings.Contains(conditions, `"`+some+`"`)
	})
	e.Kill(t)

	kept := map[string]bool{
		some + "/prod-db": true, some + "/dev-cp": true, some + "/prod-db-pool": true, some + "/dev-cp-pool": true,
		some + "/dev-both": true, some + "/prod-bare": true,
	}
	for _, name := range []string{
		"prod-cp", "prod-db", "prod-web", "dev-cp", "dev-db", "prod-db-pool", "dev-cp-pool", "dev-both", "prod-bare",
	} {
		kept[all+"/"+name] = true
	}
	measure := func(when string) {
		t.Helper()
		blocked, free := 0, 0
		for _, namespace := range []string{none, all, some, out} {
			for _, name := range []string{
				"prod-cp", "prod-db", "prod-web", "dev-cp", "dev-db", "prod-alone", "prod-pool", "prod-db-pool", "dev-cp-pool",
				"dev-both", "prod-bare",
			} {
				for what, try := range map[string]func(*testing.T, *wire.Plane, string, string) (bool, string){"delete": deletion, "create": creation} {
					possible, message := try(t, p, namespace, name)
					if possible == kept[namespace+"/"+name] {
						t.Errorf("%s: %s %s/%s: possible %t: %s", when, what, namespace, name, possible, message)
					}
					if possible {
						free++
					} else {
						blocked++
					}
				}
			}
		}
		t.Logf("%s: %d of %d requests blocked, %d Machines are kept", when, blocked, blocked+free, len(kept))
	}
	awaitFree(t, p, none, "prod-db")
	measure("extension down")
	before := conditions(read(t, p))
	for name, apply := range gitOps() {
		// A tool applies again when something about the manifest has changed.
		config.Annotations = map[string]string{"applied-by": name}
		apply(t, p, manifestLike(config))
		if after := conditions(read(t, p)); after != before {
			t.Errorf("%s changed the match conditions from\n%s to\n%s", name, before, after)
		}
	}
	measure("after the manifest was applied again")
}

// ofSet creates a MachineSet that controls a Machine.
func ofSet(t *testing.T, p *wire.Plane, m *clusterv1.Machine) *clusterv1.Machine {
	t.Helper()
	labels := map[string]string{clusterv1.ClusterNameLabel: m.Spec.ClusterName}
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name + "-set", Labels: labels},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: m.Spec.ClusterName, Replicas: new(int32(1)), Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: m.Spec},
		},
	}
	p.Create(t, set)
	m.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(set, clusterv1.GroupVersion.WithKind("MachineSet")),
	}
	return m
}

// exclude labels a namespace, so that the guard leaves it out.
func exclude(t *testing.T, p *wire.Plane, namespace string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.GuardLabel, v1alpha1.GuardDisabled)
	object := &corev1.Namespace{}
	object.Name = namespace
	if err := p.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, p *wire.Plane) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	config.Name = v1alpha1.GuardConfigurationName
	p.Get(t, config)
	return config
}

// manifestLike is a configuration as a tool has it in its repository.
func manifestLike(config *admissionregistrationv1.ValidatingWebhookConfiguration) *admissionregistrationv1.ValidatingWebhookConfiguration {
	wanted := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	wanted.APIVersion, wanted.Kind = admissionregistrationv1.SchemeGroupVersion.String(), "ValidatingWebhookConfiguration"
	wanted.Name, wanted.Annotations = config.Name, config.Annotations
	webhook := config.Webhooks[0]
	webhook.MatchConditions = nil
	wanted.Webhooks = []admissionregistrationv1.ValidatingWebhook{webhook}
	return wanted
}

type applyFunc func(*testing.T, *wire.Plane, *admissionregistrationv1.ValidatingWebhookConfiguration)

// gitOps are the ways in which tools apply a manifest.
func gitOps() map[string]applyFunc {
	return map[string]applyFunc{
		"server-side apply": func(t *testing.T, p *wire.Plane, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) {
			t.Helper()
			//nolint:staticcheck // Patch takes the typed object as it is.
			if err := p.Client.Patch(t.Context(), wanted, client.Apply, client.FieldOwner("gitops"), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		},
		"client-side apply": clientSideApply,
		"client-side apply once more": func(t *testing.T, p *wire.Plane, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) {
			t.Helper()
			clientSideApply(t, p, wanted)
			wanted.Webhooks[0].TimeoutSeconds = new(int32(9))
			clientSideApply(t, p, wanted)
		},
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// clientSideApply is what `kubectl apply` does: a patch from what it applied last, what it applies now and what there is.
func clientSideApply(t *testing.T, p *wire.Plane, wanted *admissionregistrationv1.ValidatingWebhookConfiguration) {
	t.Helper()
	encode := func(object any) []byte {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	current := read(t, p)
	modified := wanted.DeepCopy()
	delete(modified.Annotations, lastApplied)
	plain := encode(modified)
	if modified.Annotations == nil {
		modified.Annotations = map[string]string{}
	}
	modified.Annotations[lastApplied] = string(plain)
	schema, err := strategicpatch.NewPatchMetaFromStruct(admissionregistrationv1.ValidatingWebhookConfiguration{})
	if err != nil {
		t.Fatal(err)
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch([]byte(current.Annotations[lastApplied]), encode(modified), encode(current), schema, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Client.Patch(t.Context(), current, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// TestManifestReplaced replaces the guard's configuration as a whole, as `kubectl replace` does. The guard is then asked about all
// Machines, until the extension has written what policies keep.
func TestManifestReplaced(t *testing.T) {
	p := wire.Start(t)
	kept, free := p.Namespace(t), p.Namespace(t)
	cluster(t, p, kept, "prod", "db")
	cluster(t, p, free, "prod", "db")
	keep := policy(kept, "keep", v1alpha1.UpdateTarget{ControlPlane: true})
	p.Create(t, keep)
	e := p.Run(t)
	config := register(t, p, e)
	awaitGuarding(t, p, keep, "True")
	narrow := func(conditions string) bool {
		return strings.Contains(conditions, `"`+kept+`/prod/cp"`) && !strings.Contains(conditions, free)
	}
	awaitRegistration(t, p, "the guard is asked about the control plane", narrow)
	wanted := manifestLike(config)
	// The extension may write at the same moment; kubectl replaces whatever is there.
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		wanted.ResourceVersion = read(t, p).ResourceVersion
		return p.Client.Update(t.Context(), wanted)
	}); err != nil {
		t.Fatal(err)
	}
	if len(wanted.Webhooks[0].MatchConditions) != 0 {
		t.Errorf("the replaced manifest has %s", conditions(wanted))
	}
	awaitRegistration(t, p, "the guard is asked about the control plane again", narrow)
}

// TestPoliciesInRaces deletes a policy and creates it again at once, so that the removal of the old one from the guard meets the new
// one. Whenever a policy reports that it guards, the API server refuses to replace a machine.
func TestPoliciesInRaces(t *testing.T) {
	p := wire.Start(t)
	namespace := p.Namespace(t)
	cluster(t, p, namespace, "prod", "db")
	e := p.Run(t)
	register(t, p, e)
	for i := range 12 {
		keep := policy(namespace, "keep", v1alpha1.UpdateTarget{ClusterName: "prod", MachineDeployments: []v1alpha1.MachineDeploymentName{"prod-db"}})
		p.Create(t, keep)
		awaitGuarding(t, p, keep, "True")
		if possible, _ := deletion(t, p, namespace, "prod-db"); possible {
			t.Fatalf("round %d: a Machine of a group that is reported as guarded can be deleted", i)
		}
		if err := p.Client.Delete(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
		// Every round meets the removal at another point.
		pause(t, time.Duration(i)*3*time.Millisecond)
	}
	awaitRegistration(t, p, "the guard is asked about nothing", func(conditions string) bool {
		return conditions != "" && !strings.Contains(conditions, namespace)
	})
	e.Kill(t)
	awaitFree(t, p, namespace, "prod-db")
}

// awaitFree waits until a Machine can be deleted although the extension is down. The API server learns by a watch of its own what it need
// not ask.
func awaitFree(t *testing.T, p *wire.Plane, namespace, name string) {
	t.Helper()
	for deadline := time.Now().Add(awaitTimeout); ; pause(t, 50*time.Millisecond) {
		possible, message := deletion(t, p, namespace, name)
		if possible {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Machine %s/%s cannot be deleted while the extension is down: %s", namespace, name, message)
		}
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}
