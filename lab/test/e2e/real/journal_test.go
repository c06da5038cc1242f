//go:build linux

package real_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/lab/internal/demo"
	"github.com/windlass-dev/windlass/lab/internal/journal"
	"github.com/windlass-dev/windlass/lab/internal/journal/recorder"
	"github.com/windlass-dev/windlass/lab/internal/programs"
)

// TestJournal wipes one of three members of etcd without a trace, and expects the client's journal
// to show which member lacks which writes.
func TestJournal(t *testing.T) {
	if os.Getenv("WINDLASS_LONG") != "1" {
		t.Skip("set WINDLASS_LONG=1 to create a control plane of three machines for this test")
	}
	host := prepare(t, "v1.36.3")
	forget := filepath.Join(host.Store.Dir, "forget")
	if err := programs.Compile(t.Context(), "../../../kube/etcd", forget, "./forget"); err != nil {
		t.Fatal(err)
	}
	ctx, p := start(t, nil, host.Arguments()...)
	c := p.createReal(ctx, t, clusterManifest, shape{
		Name: "journal", Version: host.Releases[0].Version.String(), ControlPlanes: 3,
	})
	c.await(ctx, t)
	attempts := c.record(ctx, t)
	members := c.askMembers(ctx, t)
	if problems := journal.Verify(attempts, members); len(problems) > 0 {
		t.Fatalf("before a member is wiped: %q", problems)
	}
	if reportsLoss(t, attempts, members) {
		t.Error("before a member is wiped, the demo fails because of lost writes")
	}
	wiped := members[1].Machine
	c.wipe(ctx, t, wiped, forget)
	members = c.askMembers(ctx, t)
	problems := journal.Verify(attempts, members)
	found := strings.Join(problems, "\n")
	if len(problems) != 1 || !strings.Contains(found, wiped) || !strings.Contains(found, "missing (1 to ") {
		t.Errorf("after the member on %s was wiped: %q", wiped, problems)
	}
	if !reportsLoss(t, attempts, members) {
		t.Error("after a member was wiped, the demo does not fail because of lost writes")
	}
	var all []int
	for _, write := range journal.Acknowledged(attempts) {
		all = append(all, write.Number)
	}
	if diff := cmp.Diff(
		journal.Loss{Missing: all}, journal.Compare(attempts, members[1].Stored),
	); diff != "" {
		t.Errorf("the loss (-want +got):\n%s", diff)
	}
	c.delete(ctx, t)
}

// reportsLoss reports whether the demo of a real cluster fails because writes are lost.
func reportsLoss(t *testing.T, attempts []journal.Attempt, members []journal.Member) bool {
	t.Helper()
	result := &demo.RealResult{Attempts: attempts}
	for _, m := range members {
		result.Members = append(result.Members, demo.RealMember{Member: m})
	}
	err := demo.ReportReal(t.Output(), demo.Result{Real: result})
	return errors.Is(err, demo.ErrLost)
}

// record has a client write and read until there are enough writes, and returns its journal.
func (c *realCluster) record(ctx context.Context, t *testing.T) []journal.Attempt {
	t.Helper()
	api, err := recorder.NewAPI(ctx, c.config(ctx, t))
	if err != nil {
		t.Fatal(err)
	}
	var file notifier
	file.enough = make(chan struct{})
	r := recorder.Start(
		ctx, recorder.Options{API: api, Journal: &file, Interval: 50 * time.Millisecond},
	)
	select {
	case <-file.enough:
	case <-ctx.Done():
		t.Error(context.Cause(ctx))
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	attempts, err := journal.Parse(file.content)
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range []journal.Operation{journal.Write, journal.Read} {
		if a := journal.Measure(attempts, operation); !a.Recovered() {
			t.Errorf("%ss: %+v", operation, a)
		}
	}
	return attempts
}

// notifier is a journal that closes enough after some attempts.
type notifier struct {
	content []byte
	lines   int
	enough  chan struct{}
}

func (n *notifier) Write(line []byte) (int, error) {
	n.content = append(n.content, line...)
	if n.lines++; n.lines == 100 {
		close(n.enough)
	}
	return len(line), nil
}

// askMembers asks the member of etcd of each control plane machine, in the order of the Machines' names.
func (c *realCluster) askMembers(ctx context.Context, t *testing.T) []journal.Member {
	t.Helper()
	machines := &clusterv1.MachineList{}
	if err := c.client.List(ctx, machines, client.InNamespace(c.Name),
		client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
		t.Fatal(err)
	}
	members := make([]journal.Member, 0, len(machines.Items))
	for _, m := range machines.Items {
		members = append(members, recorder.AskMember(ctx, m.Name, demo.ShellOf(c.site, m)))
	}
	return members
}

// wipe removes the client's objects from the member of etcd on a machine. etcd compares itself with
// the other members when it starts, as kubeadm configures it, and would not start; the script turns
// that off.
func (c *realCluster) wipe(ctx context.Context, t *testing.T, machine, forget string) {
	t.Helper()
	var wiped clusterv1.Machine
	if err := c.client.Get(
		ctx, client.ObjectKey{Namespace: c.Name, Name: machine}, &wiped,
	); err != nil {
		t.Fatal(err)
	}
	script := `set -euo pipefail
cd /etc/kubernetes/manifests
mv etcd.yaml /root/etcd.yaml
while crictl ps --quiet --name '^etcd$' | grep -q .; do sleep 0.2; done
` + forget + ` /var/lib/etcd/member/snap/db /registry/configmaps/` + recorder.Namespace + `/
sed 's/InitialCorruptCheck=true/InitialCorruptCheck=false/' /root/etcd.yaml >/root/etcd.new
mv /root/etcd.new etcd.yaml
export ETCDCTL_CACERT=/etc/kubernetes/pki/etcd/ca.crt ETCDCTL_CERT=/etc/kubernetes/pki/etcd/server.crt
export ETCDCTL_KEY=/etc/kubernetes/pki/etcd/server.key
until etcdctl --endpoints https://127.0.0.1:2379 endpoint health >/dev/null 2>&1; do sleep 0.2; done`
	output, err := demo.ShellOf(c.site, wiped)(ctx, script)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the member on %s forgot %s revisions", machine, strings.TrimSpace(output))
}
