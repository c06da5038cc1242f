//go:build linux

package hosts_test

import (
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/lab/internal/hosts"
	"github.com/windlass-dev/windlass/lab/test/wire"
	"github.com/windlass-dev/windlass/test/loopback"
)

func failed(a wire.Answer) bool { return a.Status == runtimehooksv1.ResponseStatusFailure }

func finished(a wire.Answer) bool {
	return a.Status == runtimehooksv1.ResponseStatusSuccess && a.RetryAfterSeconds == 0
}

func ended(a wire.Answer) bool { return failed(a) || finished(a) }

// mustRefuse fails unless an update failed with words, and nothing on a host changed.
func (w *world) mustRefuse(t *testing.T, host *hosts.Host, words ...string) {
	t.Helper()
	before := snapshot(t, host)
	answer := w.begin(t, nil, ended)
	said := answer.Message + w.conditions(t)
	for _, word := range words {
		if !failed(answer) || !strings.Contains(said, word) {
			t.Errorf("the answer is %+v, and does not name %q; the Machine says %s", answer, word, said)
		}
	}
	if after := snapshot(t, host); after != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, after)
	}
}

// conditions are the messages on the Machine.
func (w *world) conditions(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, c := range w.pool.Machine(t, machineName).Status.Conditions {
		all.WriteString("\n" + c.Type + ": " + c.Reason + ": " + c.Message)
	}
	return all.String()
}

// TestOwnHost updates the Machine's own host: the refusals below are not for another reason.
func TestOwnHost(t *testing.T) {
	w := newWorld(t, nil)
	host := startHost(t, machineName, w.pool.Workload.Authority)
	w.login(t, host)
	w.address(t, host.Address())
	w.patches = "/etc/kubernetes/patches"
	files := []bootstrapv1.File{
		{Path: "/etc/kubernetes/audit/it.yaml", Content: "rules: []", Permissions: "0600"},
		{Path: "/etc/kubernetes/patches/kubeletconfiguration.yaml", Content: "maxPods: 50", Permissions: "0600"},
	}
	w.begin(t, files, func(a wire.Answer) bool {
		if _, err := host.Read("/run/stand-in-kubelet"); err == nil {
			w.pool.Workload.SetNode(machineName, strings.TrimSpace(host.MustRun("cat /run/stand-in-kubelet")))
		}
		if failed(a) {
			t.Fatalf("it fails: %+v %s", a, w.conditions(t))
		}
		return finished(a)
	})
	if content, err := host.Read(files[0].Path); err != nil || string(content) != files[0].Content {
		t.Errorf("the file is %q, %v", content, err)
	}
	if log := host.MustRun("cat /var/log/stand-in-kubeadm.log"); !strings.Contains(log, "--patches /var/lib/windlass/op/") {
		t.Errorf("kubeadm ran as %s", log)
	}
	if version := host.MustRun("/usr/bin/kubelet --version"); !strings.Contains(version, wire.To) {
		t.Errorf("the host has %s", version)
	}
}

// TestHostOfAnotherCluster has a Machine's address lead to the host of another tenant. That
// host has the same login and a pinned key.
func TestHostOfAnotherCluster(t *testing.T) {
	w := newWorld(t, nil)
	host := startHost(t, machineName, loopback.NewAuthority(t, "another tenant"))
	w.login(t, host)
	w.address(t, host.Address())
	w.mustRefuse(t, host, "WrongHost", "another cluster")
}

// TestHostOfAnotherMachine has it lead to another host of the same cluster.
func TestHostOfAnotherMachine(t *testing.T) {
	w := newWorld(t, nil)
	host := startHost(t, "m-1", w.pool.Workload.Authority)
	w.login(t, host)
	w.address(t, host.Address())
	w.mustRefuse(t, host, "WrongHost", "m-1")
}

// TestHostThatIsNoNode has it lead to a machine without a kubelet, such as a bastion.
func TestHostThatIsNoNode(t *testing.T) {
	w := newWorld(t, nil)
	host := hosts.Start(t, hosts.Options{Name: "bastion"})
	w.login(t, host)
	w.address(t, host.Address())
	w.mustRefuse(t, host, "WrongHost", "no kubelet")
}

// TestLoopback has it lead to the extension's own machine, to a server whose key is not pinned.
// The server must see no attempt to authenticate.
func TestLoopback(t *testing.T) {
	address, attempts := listenSSH(t)
	w := newWorld(t, func(c *v1alpha1.HostConfig) { c.SSH.Port = int32(address.Port()) })
	w.login(t, startHost(t, machineName, w.pool.Workload.Authority))
	w.address(t, address.Addr().String())
	answer := w.begin(t, nil, ended)
	if said := answer.Message + w.conditions(t); !failed(answer) || !strings.Contains(said, "HostKeyNotTrusted") {
		t.Errorf("the answer is %+v; the Machine says %s", answer, said)
	}
	if n := attempts.Load(); n != 0 {
		t.Errorf("the server saw %d attempts to authenticate", n)
	}
}

// TestKeyThatIsNotPinned has it lead to a host whose key nobody has pinned: nothing is sent to it.
func TestKeyThatIsNotPinned(t *testing.T) {
	w := newWorld(t, nil)
	own, other := startHost(t, machineName, w.pool.Workload.Authority), startHost(t, machineName, w.pool.Workload.Authority)
	w.login(t, own)
	w.address(t, other.Address())
	w.mustRefuse(t, other, "HostKeyNotTrusted")
}

// TestNodeOfAnotherMachine has a Machine name the Node of another one, and lead to its host.
func TestNodeOfAnotherMachine(t *testing.T) {
	w := newWorld(t, nil)
	host := startHost(t, "m-1", w.pool.Workload.Authority)
	w.pool.Workload.SetNode("m-1", wire.From)
	w.login(t, host)
	w.address(t, host.Address())
	machine := w.pool.Machine(t, machineName)
	patch := client.MergeFrom(machine.DeepCopy())
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m-1"}
	if err := w.plane.Client.Status().Patch(t.Context(), machine, patch); err != nil {
		t.Fatal(err)
	}
	w.mustRefuse(t, host, "WrongHost", "provider ID")
}

// TestPodOnAnotherNode has a Machine name the Node of another one, which would get a privileged Pod.
func TestPodOnAnotherNode(t *testing.T) {
	w := newWorld(t, func(c *v1alpha1.HostConfig) {
		c.SSH, c.Pod = nil, &v1alpha1.HostPod{Image: "registry.example/tools:v1"}
	})
	w.pool.Workload.SetNode("m-1", wire.From)
	machine := w.pool.Machine(t, machineName)
	patch := client.MergeFrom(machine.DeepCopy())
	machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: "m-1"}
	if err := w.plane.Client.Status().Patch(t.Context(), machine, patch); err != nil {
		t.Fatal(err)
	}
	answer := w.begin(t, nil, ended)
	if said := answer.Message + w.conditions(t); !failed(answer) || !strings.Contains(said, "provider ID") {
		t.Errorf("the answer is %+v; the Machine says %s", answer, said)
	}
	for _, request := range w.pool.Workload.Requests() {
		if strings.Contains(request, "/pods") {
			t.Errorf("the workload cluster was asked for a Pod: %s", request)
		}
	}
}

// TestFilesThatAreNotCovered has a config bring files that run as root on a host.
func TestFilesThatAreNotCovered(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{
		"/etc/cron.d/evil", "/etc/sudoers.d/evil", "/usr/bin/bash", "/root/.ssh/authorized_keys", "/etc/kubernetes/../cron.d/evil", "/etc/kubernetes//manifests/evil.yaml",
		"/etc/kubernetes/manifests/evil.yaml", "/etc/kubernetes/PKI/ca.crt", "/etc/kubernetes/admin.conf",
	} {
		w.setFiles(t, bootstrapv1.File{Path: path, Content: "x"})
		answer := w.extension.Call(t, wire.CanUpdateMachineSet, w.pool.Question(t))
		if !strings.Contains(answer.Message, path) {
			t.Errorf("%s: the answer is %+v", path, answer)
		}
	}
	const covered = "/etc/kubernetes/audit/it.yaml"
	w.setFiles(t, bootstrapv1.File{Path: covered, Content: "x"})
	if answer := w.extension.Call(t, wire.CanUpdateMachineSet, w.pool.Question(t)); strings.Contains(answer.Message, covered) {
		t.Errorf("%s is covered, and the answer is %+v", covered, answer)
	}
}

// TestPatchesOfAnEarlierUpdate has an earlier update write a file to an allowed folder, which a
// later config names as the folder of patches: kubeadm would patch a static pod, which is root.
func TestPatchesOfAnEarlierUpdate(t *testing.T) {
	const evil = "/etc/kubernetes/audit/kube-apiserver.yaml"
	w := newWorld(t, nil)
	host := startHost(t, machineName, w.pool.Workload.Authority)
	w.login(t, host)
	w.address(t, host.Address())
	w.patches = "/etc/kubernetes/audit"
	host.Write(evil, []byte("spec: {hostPID: true}"))
	own := bootstrapv1.File{Path: "/etc/kubernetes/audit/kubeletconfiguration.yaml", Content: "maxPods: 50", Permissions: "0600"}
	answer := w.begin(t, []bootstrapv1.File{own}, func(a wire.Answer) bool {
		if log, err := host.Read("/var/log/stand-in-kubeadm.log"); err == nil {
			t.Fatalf("kubeadm ran: %s", log)
		}
		return ended(a)
	})
	if said := answer.Message + w.conditions(t); !failed(answer) || !strings.Contains(said, "FileRefused") || !strings.Contains(said, evil) {
		t.Errorf("with the file on the host, the answer is %+v; the Machine says %s", answer, said)
	}
}

// TestPatchThatCopies has a patch for kubeadm copy what it has added elsewhere. kubeadm applies patches
// of the kubelet's configuration on workers, too.
func TestPatchThatCopies(t *testing.T) {
	const name = "kubeletconfiguration0+json.json"
	w := newWorld(t, nil)
	w.patches = "/etc/kubernetes/patches"
	w.setFiles(t, bootstrapv1.File{Path: w.patches + "/" + name, Content: `[
		{"op": "add", "path": "/metadata/annotations", "value": {"a": {"hostPID": true}}},
		{"op": "copy", "from": "/metadata/annotations/a", "path": "/spec"}, {"op": "remove", "path": "/metadata/annotations/a"}]`})
	if answer := w.extension.Call(t, wire.CanUpdateMachineSet, w.pool.Question(t)); !failed(answer) || !strings.Contains(answer.Message, name) {
		t.Errorf("the answer is %+v", answer)
	}
}

// TestFilesThatLeadElsewhere has links and folders on the host that lead a write to another place.
func TestFilesThatLeadElsewhere(t *testing.T) {
	for name, tt := range map[string]struct{ prepare, path string }{
		"a folder that is a link":        {prepare: "mkdir -p /etc/cron.d; ln -s /etc/cron.d /etc/kubernetes/evil", path: "/etc/kubernetes/evil/x"},
		"a file that is a link":          {prepare: "mkdir /etc/kubernetes/a; ln -s /etc/cron.d/x /etc/kubernetes/a/x", path: "/etc/kubernetes/a/x"},
		"a folder of somebody else":      {prepare: "mkdir /etc/kubernetes/a; chown nosudo /etc/kubernetes/a", path: "/etc/kubernetes/a/x"},
		"a folder that all can write to": {prepare: "mkdir /etc/kubernetes/a; chmod 1777 /etc/kubernetes/a", path: "/etc/kubernetes/a/b/x"},
		"a link to a protected folder":   {prepare: "ln -s /etc/kubernetes/manifests /etc/kubernetes/a; mkdir /etc/kubernetes/manifests", path: "/etc/kubernetes/a/x"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			host := startHost(t, machineName, w.pool.Workload.Authority)
			host.MustRun(tt.prepare)
			w.login(t, host)
			w.address(t, host.Address())
			answer := w.begin(t, []bootstrapv1.File{{Path: tt.path, Content: "* * * * * root id", Permissions: "0600"}}, ended)
			if said := answer.Message + w.conditions(t); !failed(answer) || !strings.Contains(said, "FileRefused") || !strings.Contains(said, tt.path) {
				t.Errorf("the answer is %+v; the Machine says %s", answer, said)
			}
			if found := host.MustRun("grep -rl 'root id' /etc /usr/bin 2>/dev/null; true"); found != "" {
				t.Errorf("it was written to %s", found)
			}
		})
	}
}

// TestForeignAuthority has a tenant copy the certificate authority of another cluster into the
// kubeconfig of its own, and lead a Machine to a host of that cluster with the same login.
func TestForeignAuthority(t *testing.T) {
	for name, tt := range map[string]struct {
		// url is where the kubeconfig leads; empty for the other cluster's own API server.
		url string
		// known has that API server accept the credentials, and providerID is the Machine's.
		known      bool
		providerID string
		words      []string
	}{
		"no API server":       {url: "https://127.0.0.1:1", words: []string{"not confirmed Node " + machineName}},
		"its API server":      {words: []string{"not confirmed Node " + machineName, "Unauthorized"}},
		"another provider ID": {known: true, providerID: "dev:////another", words: []string{"WrongHost", "provider ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			other := wire.NewWorkload(t)
			other.SetNode(machineName, wire.From)
			host := startHost(t, machineName, other.Authority)
			w.login(t, host)
			w.address(t, host.Address())
			// The tenant changes the kubeconfig once the attempt has begun, which needs an API server.
			host.Disconnect()
			w.begin(t, nil, func(a wire.Answer) bool { return strings.Contains(a.Message, "HostUnreachable") })
			host.Connect()
			machine := w.pool.Machine(t, machineName)
			patch := client.MergeFrom(machine.DeepCopy())
			machine.Spec.ProviderID = cmp.Or(tt.providerID, machine.Spec.ProviderID)
			if err := w.plane.Client.Patch(t.Context(), machine, patch); err != nil {
				t.Fatal(err)
			}
			token := "unknown"
			if tt.known {
				token = other.Token
			}
			kubeconfig := wire.KubeconfigSecret(t, w.pool.Namespace, wire.ClusterName,
				cmp.Or(tt.url, other.URL), other.Authority.PEM, token)
			w.restart(t, func() {
				if err := w.plane.Client.Update(t.Context(), kubeconfig); err != nil {
					t.Fatal(err)
				}
			})
			before, looks := snapshot(t, host), 0
			answer := w.update(t, func(a wire.Answer) bool {
				looks++
				return ended(a) || looks == 3
			})
			said := answer.Message + w.conditions(t)
			for _, word := range tt.words {
				if finished(answer) || !strings.Contains(said, word) {
					t.Errorf("the answer is %+v, and does not name %q; the Machine says %s", answer, word, said)
				}
			}
			if after := snapshot(t, host); after != before {
				t.Errorf("the host was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// TestAPIServerGoesAway: an update that has begun continues while the API server that confirmed the
// Machine's node is away.
func TestAPIServerGoesAway(t *testing.T) {
	var away atomic.Bool
	w := newWorld(t, nil)
	w.restart(t, func() {
		w.pool.Workload.Before = func(*http.Request) {
			if away.Load() {
				panic(http.ErrAbortHandler)
			}
		}
	})
	host := startHost(t, machineName, w.pool.Workload.Authority)
	w.login(t, host)
	w.address(t, host.Address())
	w.begin(t, nil, func(a wire.Answer) bool {
		if _, err := host.Read("/var/lib/windlass/job/id"); err == nil {
			away.Store(true)
		}
		// The node is looked at when all is done.
		if version := host.MustRun("/usr/bin/kubelet --version"); strings.Contains(version, wire.To) {
			away.Store(false)
			w.pool.Workload.SetNode(machineName, wire.To)
		}
		if failed(a) {
			t.Fatalf("it fails: %+v %s", a, w.conditions(t))
		}
		return finished(a)
	})
}
