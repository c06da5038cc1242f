package workload_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/inplace"
	"github.com/windlass-dev/windlass/internal/port/porttest"
	"github.com/windlass-dev/windlass/internal/workload"
)

var (
	cluster = types.NamespacedName{Namespace: "default", Name: "c"}
	away    = types.NamespacedName{Namespace: "default", Name: "away"}
	machine = types.NamespacedName{Namespace: "default", Name: "m"}
	start   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// autoscalerAnnotation is as the cluster autoscaler's documentation has it.
const autoscalerAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

// world is a management cluster with one workload cluster, and a clock.
type world struct {
	server     *apiServer
	management client.Client
	nodes      *workload.Nodes
	now        time.Time
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{server: newAPIServer(t), now: start}
	objects = append(objects,
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}},
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name, Labels: map[string]string{"pool": "a"}}},
	)
	w.management = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	w.nodes = workload.New(w.management, func() time.Time { return w.now })
	w.putSecret(t, cluster, w.server.kubeconfig(nil))
	return w
}

func (w *world) putSecret(t *testing.T, cluster types.NamespacedName, kubeconfig []byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}}
	if err := client.IgnoreNotFound(w.management.Delete(t.Context(), secret.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	secret.Data = map[string][]byte{"value": kubeconfig}
	if err := w.management.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func (w *world) putNode(name string, facts inplace.Node) {
	node := &corev1.Node{
		TypeMeta:   kind("v1", "Node"),
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///zone/" + name, Unschedulable: facts.Unschedulable},
		Status: corev1.NodeStatus{
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: facts.Kubelet.String()},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(facts.ReadySince)}},
		},
	}
	node.ResourceVersion = "1"
	switch facts.ScaleDown {
	case inplace.ScaleDownByUs:
		node.Annotations = map[string]string{autoscalerAnnotation: "true", v1alpha1.ScaleDownDisabledAnnotation: ""}
	case inplace.ScaleDownByOthers:
		node.Annotations = map[string]string{autoscalerAnnotation: "true"}
	case inplace.ScaleDownAllowed:
	}
	if !facts.Ready {
		reason, message, _ := strings.Cut(facts.NotReady, ": ")
		node.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.nodes[name] = node
}

func TestFacts(t *testing.T) {
	w := newWorld(t)
	ready := porttest.ReadyNode("v1.33.4", start)
	for name, test := range map[string]struct {
		edit func(*corev1.Node)
		want func(*inplace.Node)
	}{
		"no kubelet version": {
			func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "" },
			func(f *inplace.Node) { f.Unknown, f.Kubelet = "cannot be understood", inplace.Node{}.Kubelet },
		},
		"kubelet that stopped": {
			func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"}}
			},
			func(f *inplace.Node) {
				f.Ready, f.ReadySince, f.NotReady = false, time.Time{}, "Ready is Unknown: NodeStatusUnknown"
			},
		},
		"no conditions": {
			func(n *corev1.Node) { n.Status.Conditions = nil },
			func(f *inplace.Node) {
				f.Ready, f.ReadySince, f.NotReady = false, time.Time{}, "the node has no Ready condition"
			},
		},
		"a build": {
			func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.33.4+rke2r1" },
			func(f *inplace.Node) { f.Kubelet = porttest.ReadyNode("v1.33.4+rke2r1", start).Kubelet },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.putNode("a", ready)
			test.edit(w.server.nodes["a"])
			want := ready
			test.want(&want)
			got := w.nodes.Node(t.Context(), cluster, "a")
			if want.Unknown != "" && strings.Contains(got.Unknown, want.Unknown) {
				got.Unknown = want.Unknown
			}
			got.ReadySince = got.ReadySince.UTC()
			if got != want {
				t.Errorf("facts are\n%+v, want\n%+v", got, want)
			}
		})
	}
}

func TestBudgetsAreNamed(t *testing.T) {
	budget := func(name string, allowed int32, labels map[string]string) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	web := map[string]string{"app": "web"}
	const head = "Drain not completed yet:\n* Pod apps/web: "
	for name, test := range map[string]struct {
		refusal *apierrors.StatusError
		budgets []policyv1.PodDisruptionBudget
		want    string
	}{
		"by the API server": {
			budgetRefuses("one", 0), []policyv1.PodDisruptionBudget{budget("one", 0, web), budget("other", 0, web)},
			head + "cannot evict pod as it would violate the pod's disruption budget. The disruption budget one needs 2 healthy pods and has 2 currently",
		},
		"by looking": {
			apierrors.NewTooManyRequests("slow down", 0),
			[]policyv1.PodDisruptionBudget{budget("one", 0, web), budget("unrelated", 0, map[string]string{"app": "db"})},
			head + "failed to evict Pod, slow down \n* Pod apps/web: PodDisruptionBudget one",
		},
		"two for one pod": {
			apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support")),
			[]policyv1.PodDisruptionBudget{budget("two", 1, web), budget("one", 1, web)},
			head + "failed to evict Pod, Internal error occurred: this pod has more than one PodDisruptionBudget, which the eviction subresource " +
				"does not support\n* Pod apps/web: PodDisruptionBudget one, two",
		},
		"none at fault": {
			apierrors.NewTooManyRequests("slow down", 0), []policyv1.PodDisruptionBudget{budget("one", 1, web)},
			head + "failed to evict Pod, slow down ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode("a", porttest.ReadyNode("v1.33.4", start))
			w.server.putPod("web", "a", nil)
			w.server.refuseEviction("web", test.refusal)
			w.server.budgets = test.budgets
			status, err := w.nodes.Drain(t.Context(), cluster, machine, "a")
			if err != nil || status.Done {
				t.Fatalf("Drain: %+v, %v", status, err)
			}
			if diff := cmp.Diff(test.want, status.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDrainFollowsMachineDrainRules(t *testing.T) {
	rule := &clusterv1.MachineDrainRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "keep-db"},
		Spec: clusterv1.MachineDrainRuleSpec{
			Drain:    clusterv1.MachineDrainRuleDrainConfig{Behavior: clusterv1.MachineDrainRuleDrainBehaviorSkip},
			Machines: []clusterv1.MachineDrainRuleMachineSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}}},
			Pods:     []clusterv1.MachineDrainRulePodSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}},
		},
	}
	w := newWorld(t, rule)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	w.server.putPod("db", "a", nil)
	status, err := w.nodes.Drain(t.Context(), cluster, machine, "a")
	if err != nil || !status.Done {
		t.Fatalf("Drain of a node whose only pod a rule skips: %+v, %v", status, err)
	}
	if w.server.pods["db"] == nil {
		t.Error("the pod was evicted")
	}
}

// TestEvictionNotFound takes no pod for gone because something knows no evictions.
func TestEvictionNotFound(t *testing.T) {
	w := newWorld(t)
	w.server.inMemory = true
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	w.server.putPod("etcd", "a", nil)
	for range 3 {
		status, err := w.nodes.Drain(t.Context(), cluster, machine, "a")
		if err != nil || status.Done {
			t.Fatalf("Drain: %+v, %v, want that it is not done", status, err)
		}
	}
}

// A node without a kubelet keeps its pods for ever; its update must not wait for that.
func TestDrainOfUnreachableNode(t *testing.T) {
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	w.server.nodes["a"].Status.Conditions[0].Status = corev1.ConditionUnknown
	w.server.putPod("web", "a", func(pod *corev1.Pod) {
		pod.DeletionTimestamp = new(metav1.NewTime(start))
		pod.Finalizers = []string{"example.com/stuck"}
	})
	status, err := w.nodes.Drain(t.Context(), cluster, machine, "a")
	if err != nil || !status.Done {
		t.Errorf("Drain: %+v, %v, want done", status, err)
	}
}

func TestClientsAreKept(t *testing.T) {
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	known := func() bool { return w.nodes.Node(t.Context(), cluster, "a").Unknown == "" }
	if !known() {
		t.Fatal("the node cannot be looked up")
	}
	w.putSecret(t, cluster, []byte("no kubeconfig"))
	w.now = start.Add(10*time.Minute - 1)
	if !known() {
		t.Error("the Secret was read again too soon")
	}
	w.now = start.Add(10 * time.Minute)
	if known() {
		t.Error("the Secret was not read again in time")
	}
}

// New credentials are used with the request after the one that the old ones failed.
func TestRotatedCredentials(t *testing.T) {
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	if node := w.nodes.Node(t.Context(), cluster, "a"); node.Unknown != "" {
		t.Fatal(node.Unknown)
	}
	w.server.mu.Lock()
	w.server.token = "new-token"
	w.server.mu.Unlock()
	w.putSecret(t, cluster, w.server.kubeconfig(nil))
	if node := w.nodes.Node(t.Context(), cluster, "a"); !strings.Contains(node.Unknown, "who are you") {
		t.Errorf("with old credentials: %+v", node)
	}
	if node := w.nodes.Node(t.Context(), cluster, "a"); node.Unknown != "" {
		t.Errorf("after the Secret was read again: %s", node.Unknown)
	}
}

// A cluster that cannot be reached is asked once, and not again for some time, whichever of its nodes is asked about: the answer
// stays the same. Then it is looked for at its new address.
func TestClusterThatIsNotReached(t *testing.T) {
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	if node := w.nodes.Node(t.Context(), cluster, "a"); node.Unknown != "" {
		t.Fatal(node.Unknown)
	}
	w.server.Close()
	first := w.nodes.Node(t.Context(), cluster, "a")
	if !strings.Contains(first.Unknown, "connecting to 127.0.0.1:") || first.Exists {
		t.Errorf("at the old address: %+v", first)
	}
	w.server = newAPIServer(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	w.putSecret(t, cluster, w.server.kubeconfig(nil))
	w.now = start.Add(20*time.Second - 1)
	for _, name := range []string{"a", "b"} {
		if node := w.nodes.Node(t.Context(), cluster, name); node.Unknown != first.Unknown {
			t.Errorf("Node %s: %q, want the words of the first failure: %q", name, node.Unknown, first.Unknown)
		}
	}
	if _, err := w.nodes.Drain(t.Context(), cluster, machine, "a"); err == nil || !strings.Contains(err.Error(), first.Unknown) {
		t.Errorf("Drain: %v, want the words of the first failure: %q", err, first.Unknown)
	}
	if len(w.server.requests) > 0 {
		t.Errorf("the cluster was asked too soon: %v", w.server.requests)
	}
	w.now = start.Add(20 * time.Second)
	if node := w.nodes.Node(t.Context(), cluster, "a"); node.Unknown != "" {
		t.Errorf("after the Secret was read again: %s", node.Unknown)
	}
}

// That a caller had no time left says nothing about the cluster.
func TestCallerOutOfTime(t *testing.T) {
	w := newWorld(t)
	w.putNode("a", porttest.ReadyNode("v1.33.4", start))
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, err := range []error{nil, context.DeadlineExceeded} {
		ctx := t.Context()
		if err != nil {
			ctx = late
		}
		if node := w.nodes.Node(ctx, cluster, "a"); (node.Unknown != "") != (err != nil) {
			t.Fatalf("with a context that ended by %v: %+v", err, node)
		}
	}
	if node := w.nodes.Node(t.Context(), cluster, "a"); node.Unknown != "" {
		t.Errorf("with time: %s", node.Unknown)
	}
}

func TestBadKubeconfigs(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"not YAML":          {[]byte("{secret-token"), "cannot be read"},
		"quoted by parsers": {[]byte("apiVersion: secret-token\nclusters: secret-token\n"), "cannot be read"},
		"empty":             {nil, "it has no cluster"},
		"no context": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.CurrentContext = ""
		}), "it has no current context. Fix: "},
		"another context": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.CurrentContext = "none"
		}), "its current-context is none of its contexts. Fix: "},
		"a context without its cluster": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.Contexts[c.CurrentContext].Cluster = "none"
		}), "names a cluster that it does not have. Fix: "},
		"runs a program": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		}), "runs a program"},
		"reads files": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.AuthInfos["u"] = &clientcmdapi.AuthInfo{TokenFile: "/var/run/secrets/token"}
		}), "refers to files"},
		"trusts a file": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.Clusters["c"].CertificateAuthority, c.Clusters["c"].CertificateAuthorityData = "/etc/ssl/cert.pem", nil
		}), "refers to files"},
		"connects by a proxy": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.Clusters["c"].ProxyURL = "http://169.254.169.254"
		}), "take it out, and let `server` be reachable"},
		"verifies nothing": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.Clusters["c"].InsecureSkipTLSVerify, c.Clusters["c"].CertificateAuthorityData = true, nil
		}), "certificate-authority-data"},
		"sends credentials in the clear": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.Clusters["c"].Server, c.Clusters["c"].CertificateAuthorityData = "http://169.254.169.254", nil
		}), "not an https:// URL"},
		"bad certificate": {w.server.kubeconfig(func(c *clientcmdapi.Config) {
			c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: []byte("secret-token"), ClientKeyData: []byte("secret-token")}
		}), "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			w.putSecret(t, cluster, test.data)
			node := w.nodes.Node(t.Context(), cluster, "a")
			if !strings.Contains(node.Unknown, test.want) || node.Exists {
				t.Errorf("facts are %+v, want Unknown with %q", node, test.want)
			}
			if strings.Contains(node.Unknown, "secret-token") || strings.Contains(node.Unknown, "c2VjcmV0") {
				t.Errorf("the kubeconfig is quoted: %s", node.Unknown)
			}
			// That the Secret is bad must not pass for a node that does not exist.
			if _, err := w.nodes.Get(t.Context(), cluster, "a"); err == nil || apierrors.IsNotFound(err) {
				t.Errorf("Get: %v", err)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	w := newWorld(t)
	missing := types.NamespacedName{Namespace: "default", Name: "new"}
	if node := w.nodes.Node(t.Context(), missing, "a"); !strings.Contains(node.Unknown, "new-kubeconfig") {
		t.Errorf("facts are %+v, want Unknown with the name of the Secret", node)
	}
	if err := w.nodes.Uncordon(t.Context(), missing, "a"); err == nil {
		t.Error("Uncordon succeeded where the cluster has no kubeconfig yet")
	}
}
