//go:build linux

package kubeadm_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkPrefetch brings to the host what its upgrade needs, ahead of it. What it returns sees that
// neither the upgrade nor the kubelet has pulled an image since.
func (m *machine) checkPrefetch(ctx context.Context, t *testing.T, u *update) (unpulled func()) {
	t.Helper()
	if os.Getenv("WINDLASS_LONG") != "1" {
		return func() {}
	}
	const installed = "kubeadm version --output short; kubelet --version; " +
		"systemctl show --property MainPID kubelet"
	before := m.run(ctx, t, installed)
	prefetch := &update{machine: m, args: slices.Clone(u.args)}
	prefetch.args[slices.Index(prefetch.args, "run")] = "prefetch"
	for _, flag := range []string{"--kubeconfig", "--node", "--patches"} {
		i := slices.Index(prefetch.args, flag)
		prefetch.args = slices.Delete(prefetch.args, i, i+2)
	}
	prefetch.run(ctx, t, 0)
	if after := m.run(ctx, t, installed); after != before {
		t.Errorf("the host had\n%s and has\n%s", before, after)
	}
	for _, image := range m.world.to.Images {
		m.run(ctx, t, "crictl inspecti --quiet "+image.Reference())
	}
	var fetched []string
	for _, step := range u.run(ctx, t, 0, "--dry-run")[0].Steps {
		if program, fetches := strings.CutPrefix(step.Step, "fetch-"); fetches {
			fetched = append(fetched, program+" "+step.State)
		}
	}
	slices.Sort(fetched)
	want := []string{"kubeadm done", "kubectl done", "kubelet done"}
	if diff := cmp.Diff(want, fetched); diff != "" {
		t.Errorf("programs that the upgrade finds (-want +got):\n%s", diff)
	}
	// The runtime replaces an image's record whenever it is pulled.
	const records = "stat --format '%n %i %Z' /var/lib/windlass-cri/*"
	pulled := m.run(ctx, t, records)
	return func() {
		t.Helper()
		if now := m.run(ctx, t, records); now != pulled {
			t.Errorf("after prefetch images were pulled. Their records were\n%s and are\n%s", pulled, now)
		}
	}
}
