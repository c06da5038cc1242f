//go:build linux

package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/internal/linuxhost"
	testhosts "github.com/windlass-dev/windlass/lab/internal/hosts"
)

// crictl stands in for crictl: the images on the host are files in /var/lib/images, and while
// /etc/stand-in/registry is there each pull ends with what it contains.
const crictl = `#!/bin/bash
image=/var/lib/images/${2//\//%}
mkdir -p /var/lib/images
case "$1" in
  inspecti) [ -e "$image" ] ;;
  pull)
    echo "$2" >>/var/log/pulled
    while [ -e /etc/stand-in/registry.hang ]; do
      : >/run/pulling
      read -r -t 0.05 _ <>/run/nobody-writes
    done
    [ ! -e /etc/stand-in/registry ] || { cat /etc/stand-in/registry >&2; exit 1; }
    : >"$image" ;;
esac
`

// TestImagesBeforeTheDrain: an image that cannot be pulled ends the attempt before the node is
// drained. Once it can, the next attempt continues, also after a power cut in the middle.
func TestImagesBeforeTheDrain(t *testing.T) {
	t.Parallel()
	testhosts.Require(t)
	w := newWorld(t, linuxhost.Kubeadm, true)
	w.host.Write("/usr/local/bin/crictl", []byte(crictl))
	w.host.Write("/etc/stand-in/registry", []byte("failed to resolve reference: unexpected status "+
		"from HEAD request to https://r.example/: 401 Unauthorized"))
	p := w.until(t, false, nil)
	const want = "RegistryRefused: step pull-images: the host lacks the image " +
		"registry.k8s.io/kube-apiserver:v1.36.3, and cannot pull it: failed to resolve reference: " +
		"unexpected status from HEAD request to https://r.example/: 401 Unauthorized. "
	if p.Failure == nil || !strings.HasPrefix(p.Failure.String(), want) {
		t.Fatalf("%v, want %s\n%s", p.Failure, want, p.Job.Output)
	}
	saved := w.host.MustRun("ls /var/log/etcdctl 2>/dev/null; true")
	if w.node.drains != 0 || w.upgraded(t) || saved != "" {
		t.Errorf("the node was drained %d times, or the host was changed", w.node.drains)
	}
	w.host.Remove("/etc/stand-in/registry")
	w.host.Write("/etc/stand-in/registry.hang", nil)
	w.upgrade.Attempt = "second"
	w.until(t, false, func(p linuxhost.Progress) bool { return p.Begin != nil })
	w.awaitFile(t, "/run/pulling")
	w.host.PowerCut()
	w.host.Remove("/etc/stand-in/registry.hang")
	w.host.Boot()
	w.reach(t, w.address)
	w.host.MustRun("mkfifo /run/nobody-writes 2>/dev/null; true")
	w.mustFinish(t)
	w.mustBeWhole(t)
	log := w.host.MustRun("cat /var/log/pulled")
	if pulled := strings.Count(log, "kube-apiserver"); pulled != 3 {
		t.Errorf("an image was pulled %d times: it was refused, cut, and then there", pulled)
	}
}
