package inplace_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/lab/internal/setup"
	"github.com/windlass-dev/windlass/lab/test/e2e/internal/rig"
)

// fault is one way in which an updater misbehaves.
type fault struct {
	name string
	// behaviour makes the updater misbehave; empty where break does.
	behaviour string
	// wrongCA makes the extension trust another CA than the updater's.
	wrongCA bool
	// decision is what the owner says when the updater misbehaves while it is asked what it covers; empty where that goes well.
	decision string
	// reason is that of the owner's condition.
	reason string
	// update is what the Machine says when it misbehaves while it updates the machine; empty where it is not asked to.
	update string
}

func faults() []fault {
	failed := v1alpha1.UpdaterErrorReason
	return []fault{
		{name: "hangs", behaviour: `{"fault": "Hang"}`, decision: "did not answer within", reason: failed, update: "did not answer within"},
		{name: "answers 500", behaviour: `{"fault": "Error500"}`, decision: "500", reason: failed, update: "500"},
		{name: "answers nonsense", behaviour: `{"fault": "Nonsense"}`, decision: "JSON", reason: failed, update: "JSON"},
		{name: "answers nothing", behaviour: `{"fault": "Empty"}`, decision: "the answer is empty", reason: failed, update: "the answer is empty"},
		{name: "speaks an old version", behaviour: `{"fault": "OldVersion"}`, decision: "v1alpha0", reason: failed, update: "v1alpha0"},
		{name: "redirects", behaviour: `{"fault": "Redirect"}`, decision: "redirect", reason: failed, update: "redirect"},
		{name: "has a wrong certificate", wrongCA: true, decision: "certificate", reason: failed, update: "certificate"},
		{name: "covers what nobody desires", behaviour: `{"updater": {"mode": "WrongAnswer"}}`, decision: "no updater covers Machine /spec/template/spec/version", reason: v1alpha1.NotCoveredReason},
		{name: "lies", behaviour: `{"updater": {"mode": "Lie"}}`, update: "waiting because the node's kubelet reports"},
	}
}

// faultPool is the pool on which fault i is tried.
func faultPool(i int) string { return fmt.Sprintf("faults-%d", i) }

// testFault has an updater misbehave. The update is neither completed nor given up for a
// replacement, and says why, on the owner while it is decided and on the Machine while it runs; and
// once the updater behaves, it is completed.
func (p *plane) testFault(ctx context.Context, t *testing.T, f fault, pool string) {
	t.Helper()
	const from, to = rig.FirstVersion, "v1.31.1"
	u := p.NewUpdater(ctx, t, setup.SimulatedUpdater{Name: pool, Selector: rig.Labelled("pool", pool), TimeoutSeconds: 1})
	misbehave := func() { u.Behave(ctx, t, f.behaviour) }
	behave := func(mode string) { u.Behave(ctx, t, fmt.Sprintf(`{"updater": {"mode": %q}}`, mode)) }
	if f.wrongCA {
		other := foreignCA(t)
		var right []byte
		misbehave = func() { right = u.Trust(ctx, t, other) }
		behave = func(string) { u.Trust(ctx, t, right) }
	}
	uid := p.OnlyMachine(ctx, t, pool).UID
	// Until it misbehaves, the updater works without end: no update is over before anybody looks.
	u.Behave(ctx, t, `{"updater": {"mode": "Stall"}}`)
	if f.decision != "" {
		misbehave()
	}
	p.Send(ctx, t, pool, to)
	if f.decision != "" {
		p.BlockedOwner(ctx, t, pool, func(c *metav1.Condition) bool { return c.Reason == f.reason && strings.Contains(c.Message, f.decision) })
		if m := p.OnlyMachine(ctx, t, pool); rig.Marked(m) || m.Spec.Version != from {
			t.Errorf("nothing was decided, but the Machine is at %s, marked as updating: %t", m.Spec.Version, rig.Marked(m))
		}
		next := "Stall"
		if f.update == "" {
			next = "Normal"
		}
		behave(next)
		// Cluster API asks again at once where the MachineDeployment changes.
		rig.AnnotateObject(ctx, t, p.Client, rig.MachineDeployment(pool), map[string]any{"example.com/ask-again": to})
	}
	if f.update != "" {
		p.testFaultyUpdate(ctx, t, f, pool, from, misbehave)
		behave("Normal")
		u.Behave(ctx, t, `{"updater": {"mode": "Normal"}}`)
		p.attemptTimeout(ctx, t, pool, patientSeconds)
		rig.AnnotateObject(ctx, t, p.Client, p.OnlyMachine(ctx, t, pool), map[string]any{v1alpha1.UpdateRetryAnnotation: ""})
	}
	p.AwaitPool(ctx, t, pool, to, 1)
	m := p.OnlyMachine(ctx, t, pool)
	if m.UID != uid {
		t.Errorf("the Machine is another one")
	}
	if c := rig.Blocked(m.Status.Conditions); c != nil {
		t.Errorf("the Machine still says that its update does not go on: %+v", c)
	}
}

// testFaultyUpdate has the updater misbehave while it is to update a machine.
func (p *plane) testFaultyUpdate(ctx context.Context, t *testing.T, f fault, pool, from string, misbehave func()) {
	t.Helper()
	p.AwaitMachine(ctx, t, pool, "waiting for the updater to work", func(m *clusterv1.Machine) string {
		if progress := rig.ProgressOf(m); progress == nil || progress.Phase != inplace.Updating {
			return fmt.Sprintf("the progress is %+v", progress)
		}
		return ""
	})
	misbehave()
	p.AwaitMachine(ctx, t, pool, "waiting until the Machine says what is wrong", func(m *clusterv1.Machine) string {
		for _, c := range m.Status.Conditions {
			if c.Type == clusterv1.MachineUpdatingCondition && strings.Contains(c.Message, f.update) {
				return ""
			}
		}
		return fmt.Sprintf("its condition %s is %+v", clusterv1.MachineUpdatingCondition, meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpdatingCondition))
	})
	// An edit counts at once: the time of the attempt is over.
	p.attemptTimeout(ctx, t, pool, 1)
	m := p.AwaitFailed(ctx, t, pool, 1)
	if !rig.Marked(m) || m.Status.NodeInfo.KubeletVersion != from {
		t.Errorf("the update has failed, but the kubelet is at %s; marked as updating: %t", m.Status.NodeInfo.KubeletVersion, rig.Marked(m))
	}
	text := rig.Blocked(m.Status.Conditions).Message
	if !strings.Contains(text, fmt.Sprintf("updater %q", pool)) || !strings.Contains(text, v1alpha1.UpdateRetryAnnotation) {
		t.Errorf("the Machine does not say which updater failed, and what to do: %s", text)
	}
}

// patientSeconds is long enough for any answer of a busy machine.
const patientSeconds = 600

func (p *plane) attemptTimeout(ctx context.Context, t *testing.T, pool string, seconds int) {
	t.Helper()
	policy := &v1alpha1.UpdatePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: rig.PoolsCluster, Name: pool}}
	rig.Patch(ctx, t, p.Client, policy, map[string]any{"spec": map[string]any{"attemptTimeoutSeconds": seconds}})
}

// foreignCA makes a CA that has signed nothing on any plane.
func foreignCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "foreign"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
