package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/preflight"
	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/workload"
	"github.com/windlass-dev/windlass/pkg/version"
)

// Remote is the API server of a workload cluster.
type Remote interface {
	kubernetes.Interface
	// Certificates returns the certificates that a connection shows.
	Certificates(ctx context.Context) ([]workload.Certificate, error)
}

// Options are the inputs of all checks. All fields but Version are required.
type Options struct {
	Remote Remote
	// Version is what the control plane object asks for; zero if it is not known.
	Version  version.Version
	Machines []*clusterv1.Machine
	// Image is that of all Pods: agnhost.
	Image string
	// Timeout bounds each check.
	Timeout time.Duration
	// CertificateDays is how many whole days certificates must have left.
	CertificateDays int
	// ID makes the name of the namespace unique.
	ID  string
	Now time.Time
}

// cleanUpTimeout bounds the requests that delete what was created.
const cleanUpTimeout = 30 * time.Second

// Label marks everything that a check creates; its value is the ID of the run.
const Label = "windlass.dev/check"

// prober is one run.
type prober struct {
	Options
	namespace string
	findings  []clustercheck.Finding
	// handLabels are the keys of the labels that people have set on Nodes, by Node.
	handLabels map[string][]string
}

// Run makes all checks, one after another. It deletes the objects that it created, also if ctx ends;
// then the error is that of ctx, and names the objects that could not be deleted.
func Run(ctx context.Context, o Options) ([]clustercheck.Finding, error) {
	p := &prober{Options: o, namespace: "windlass-check-" + o.ID}
	nodes, unread := p.readNodes(ctx)
	if unread != nil && !isAnswer(unread) {
		p.findings = clustercheck.Unreachable(unread, clustercheck.Nodes, clustercheck.Certificates,
			clustercheck.ConfigMapWatch, clustercheck.Deployment, clustercheck.Service, clustercheck.Job)
		return p.findings, context.Cause(ctx)
	}
	p.tryAPI(ctx, nodes, clustercheck.APIDiscovery, p.discover)
	p.try(ctx, clustercheck.Nodes, func(context.Context) (clustercheck.Finding, error) {
		return clustercheck.CheckNodes(nodes, p.Machines), unread
	})
	p.try(ctx, clustercheck.Certificates, p.certificates)
	if p.inNamespace(ctx, func() { p.tryWorkloads(ctx, nodes, unread) }); ctx.Err() != nil {
		return p.findings, p.interrupted(context.Cause(ctx))
	}
	return p.findings, nil
}

// interrupted returns the error of a run that was ended by cause.
func (p *prober) interrupted(cause error) error {
	for _, f := range p.findings {
		if f.ID == clustercheck.CleanUp {
			return fmt.Errorf("%w; %s. Fix: %s", cause, f.Message, f.Fix)
		}
	}
	return cause
}

// try makes a check within its time.
func (p *prober) try(ctx context.Context, id clustercheck.ID, check func(context.Context) (clustercheck.Finding, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	finding, err := check(ctx)
	if err != nil {
		finding = clustercheck.Fail(id, fixes[id], "%v", err)
	}
	p.add(finding)
	return finding.Outcome == clustercheck.Passed
}

// tryAPI is try, for a check that a simulated API server cannot pass.
func (p *prober) tryAPI(
	ctx context.Context, nodes []corev1.Node, id clustercheck.ID,
	check func(context.Context) (clustercheck.Finding, error),
) {
	if reason, simulated := clustercheck.SimulatedAPI(nodes); simulated {
		p.add(clustercheck.Skip(id, "%s", reason))
		return
	}
	p.try(ctx, id, check)
}

// maxMessageBytes bounds a message: a workload cluster is not trusted to report short errors and names.
const maxMessageBytes = 2048

// add keeps a finding.
func (p *prober) add(f clustercheck.Finding) {
	f.Message, f.Subject = text.Bound(f.Message, maxMessageBytes), text.Bound(f.Subject, maxMessageBytes)
	f.Fix = text.Bound(f.Fix, maxMessageBytes)
	p.findings = append(p.findings, f)
}

// fixes are where to look if a check fails.
var fixes = map[clustercheck.ID]string{ //nolint:exhaustive // CleanUp is not tried.
	clustercheck.APIDiscovery:   "look at the API servers, and at the rights of the kubeconfig's user",
	clustercheck.Nodes:          "look at the API servers, and at the rights of the kubeconfig's user",
	clustercheck.Certificates:   "look at the API servers, and at what is between them and this machine",
	clustercheck.ConfigMapWatch: "look at the API servers, at etcd, and at the admission webhooks for ConfigMaps",
	clustercheck.Deployment:     "look at the kube-controller-manager, the scheduler and the Nodes; choose an image that they can pull with --image",
	clustercheck.Service:        "look at the cluster's DNS, at kube-proxy and at the network plugin",
	clustercheck.Job:            "look at the kube-controller-manager, the scheduler and the Nodes",
}

// readNodes reads the Nodes within the time of a check.
func (p *prober) readNodes(ctx context.Context) ([]corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	nodes, err := p.listNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes: %w", err)
	}
	return nodes, nil
}

// isAnswer reports whether an error is an API server's own answer, and not that of a connection.
func isAnswer(err error) bool {
	_, answered := errors.AsType[*apierrors.StatusError](err)
	return answered
}

const (
	// nodesPerPage is how many Nodes one request returns: answers of a workload cluster are bounded, and a Node may have
	// 50 KiB.
	nodesPerPage = 100
	// maxNodes is more than Kubernetes supports in a cluster.
	maxNodes = 10_000
)

func (p *prober) listNodes(ctx context.Context) ([]corev1.Node, error) {
	var nodes []corev1.Node
	p.handLabels = map[string][]string{}
	err := eachPage(ctx, nodesPerPage, maxNodes, func(ctx context.Context, o metav1.ListOptions) (metav1.ListInterface, int, error) {
		page, err := p.Remote.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, 0, err
		}
		for i := range page.Items {
			if keys := preflight.HandLabels(&page.Items[i]); len(keys) > 0 {
				p.handLabels[page.Items[i].Name] = keys
			}
			page.Items[i].Status.Images, page.Items[i].ManagedFields = nil, nil
		}
		nodes = append(nodes, page.Items...)
		return page, len(page.Items), nil
	})
	return nodes, err
}

// eachPage reads a list in pages of size objects. It fails after most objects, or if a page before the last one is empty.
// read reads a page, uses it, and returns how many objects it has.
func eachPage(
	ctx context.Context, size int64, most int,
	read func(context.Context, metav1.ListOptions) (metav1.ListInterface, int, error),
) error {
	options := metav1.ListOptions{Limit: size}
	for total := 0; ; {
		page, n, err := read(ctx, options)
		if err != nil {
			return err
		}
		total += n
		switch options.Continue = page.GetContinue(); {
		case options.Continue == "":
			return nil
		case total > most || n == 0:
			return apierrors.NewInternalError(fmt.Errorf("the list does not end after %d objects", total))
		}
	}
}

// tryWorkloads makes the checks that create objects.
func (p *prober) tryWorkloads(ctx context.Context, nodes []corev1.Node, unread error) {
	p.tryAPI(ctx, nodes, clustercheck.ConfigMapWatch, p.watchConfigMap)
	reason, simulated := clustercheck.Simulated(nodes)
	if unread != nil {
		reason, simulated = "the Nodes could not be read", true
	}
	if simulated {
		for _, id := range []clustercheck.ID{clustercheck.Deployment, clustercheck.Service, clustercheck.Job} {
			p.add(clustercheck.Skip(id, "%s", reason))
		}
		return
	}
	tolerations := p.tolerations(nodes)
	if p.try(ctx, clustercheck.Deployment, func(ctx context.Context) (clustercheck.Finding, error) { return p.rollOut(ctx, tolerations) }) {
		p.try(ctx, clustercheck.Service, func(ctx context.Context) (clustercheck.Finding, error) { return p.reachService(ctx, tolerations) })
	} else {
		p.add(clustercheck.Skip(clustercheck.Service, "no Pod of the Deployment can answer"))
	}
	p.try(ctx, clustercheck.Job, func(ctx context.Context) (clustercheck.Finding, error) {
		return clustercheck.Pass(clustercheck.Job, "a Job completed"), p.runJob(ctx, "job", []string{"help"}, tolerations)
	})
}

// tolerations let Pods run on control plane Nodes where there are no others.
func (p *prober) tolerations(nodes []corev1.Node) []corev1.Toleration {
	for i := range nodes {
		if _, controlPlane := nodes[i].Labels[controlPlaneRole]; !controlPlane {
			return nil
		}
	}
	return []corev1.Toleration{{Key: controlPlaneRole, Operator: corev1.TolerationOpExists}}
}

// controlPlaneRole is the label and the taint of kubeadm's control plane Nodes.
const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// inNamespace creates the namespace of the run, and deletes it with all that is in it.
func (p *prober) inNamespace(ctx context.Context, checks func()) {
	if ctx.Err() != nil {
		return
	}
	namespaces := p.Remote.CoreV1().Namespaces()
	namespace := &corev1.Namespace{ObjectMeta: p.meta("")}
	namespace.Name, namespace.Namespace = p.namespace, ""
	_, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{})
	// A request that failed may have been carried out, so that it is deleted in any case.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		if err := ignoreGone(namespaces.Delete(ctx, p.namespace, metav1.DeleteOptions{})); err != nil {
			p.add(clustercheck.Fail(clustercheck.CleanUp,
				"delete it in the workload cluster: kubectl delete namespace "+p.namespace, "deleting Namespace %s: %v", p.namespace, err))
		}
	}()
	if err != nil {
		p.add(clustercheck.Fail(clustercheck.ConfigMapWatch,
			"look at the rights of the kubeconfig's user, and at the admission webhooks for Namespaces", "creating Namespace %s: %v", p.namespace, err))
		for _, id := range []clustercheck.ID{clustercheck.Deployment, clustercheck.Service, clustercheck.Job} {
			p.add(clustercheck.Skip(id, "there is no Namespace to try it in"))
		}
		return
	}
	checks()
}

// meta is the metadata of an object in the namespace of the run.
func (p *prober) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: p.namespace, Name: name, Labels: map[string]string{Label: p.ID, "app.kubernetes.io/managed-by": "windlass"},
	}
}
