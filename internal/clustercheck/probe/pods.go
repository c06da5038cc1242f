package probe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/windlass-dev/windlass/internal/clustercheck"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	serverName = "server"
	serverPort = 8080
	replicas   = 2
	// pollInterval is how often objects are read that controllers change.
	pollInterval = time.Second
	// app selects the Pods of the Deployment and of each Job.
	app = "app.kubernetes.io/name"
	// nobody is a user that every image can run as.
	nobody = 65534
	// maxReasonBytes bounds the reason that a Pod reports.
	maxReasonBytes = 200
)

// rollOut creates a Deployment, waits until it is available, changes it, and waits until the change is rolled out.
func (p *prober) rollOut(ctx context.Context, tolerations []corev1.Toleration) (clustercheck.Finding, error) {
	deployments := p.Remote.AppsV1().Deployments(p.namespace)
	labels := map[string]string{app: serverName}
	deployment := &appsv1.Deployment{
		ObjectMeta: p.meta(serverName),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: p.template(labels, []string{"netexec", fmt.Sprintf("--http-port=%d", serverPort)}, tolerations),
		},
	}
	deployment.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	created, err := deployments.Create(ctx, deployment, metav1.CreateOptions{})
	if err != nil {
		return clustercheck.Finding{}, fmt.Errorf("creating a Deployment: %w", err)
	}
	if err := p.awaitRollout(ctx, created.Generation); err != nil {
		return clustercheck.Finding{}, err
	}
	changed, err := deployments.Get(ctx, serverName, metav1.GetOptions{})
	if err == nil {
		changed.Spec.Template.Annotations = map[string]string{Label: "rolled-out"}
		changed, err = deployments.Update(ctx, changed, metav1.UpdateOptions{})
	}
	if err != nil {
		return clustercheck.Finding{}, fmt.Errorf("changing a Deployment: %w", err)
	}
	if err := p.awaitRollout(ctx, changed.Generation); err != nil {
		return clustercheck.Finding{}, err
	}
	return clustercheck.Pass(clustercheck.Deployment, "a Deployment with %d Pods became available and rolled out a change", replicas), nil
}

// awaitRollout is the rule of `kubectl rollout status`.
func (p *prober) awaitRollout(ctx context.Context, generation int64) error {
	return p.poll(ctx, serverName, "a Deployment did not become available", func(ctx context.Context) (bool, error) {
		d, err := p.Remote.AppsV1().Deployments(p.namespace).Get(ctx, serverName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := d.Status
		return s.ObservedGeneration >= generation && s.UpdatedReplicas == replicas && s.Replicas == replicas && s.AvailableReplicas == replicas, nil
	})
}

// reachService runs a Pod that connects to the Deployment's Pods by the DNS name of a Service.
func (p *prober) reachService(ctx context.Context, tolerations []corev1.Toleration) (clustercheck.Finding, error) {
	service := &corev1.Service{
		ObjectMeta: p.meta(serverName),
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{app: serverName},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(serverPort)}},
		},
	}
	if _, err := p.Remote.CoreV1().Services(p.namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return clustercheck.Finding{}, fmt.Errorf("creating a Service: %w", err)
	}
	address := fmt.Sprintf("%s.%s.svc:80", serverName, p.namespace)
	if err := p.runJob(ctx, "client", []string{"connect", address, "--protocol=tcp", "--timeout=5s"}, tolerations); err != nil {
		return clustercheck.Finding{}, fmt.Errorf("a Pod that connects to %s: %w", address, err)
	}
	return clustercheck.Pass(clustercheck.Service, "a Pod connected to %s", address), nil
}

// jobRetries is how often a Job starts a Pod again: the name of a new Service takes a moment to be known everywhere.
const jobRetries = 4

func (p *prober) runJob(ctx context.Context, name string, arguments []string, tolerations []corev1.Toleration) error {
	jobs := p.Remote.BatchV1().Jobs(p.namespace)
	job := &batchv1.Job{
		ObjectMeta: p.meta(name),
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(jobRetries)), Template: p.template(map[string]string{app: name}, arguments, tolerations),
		},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := jobs.Create(ctx, job, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a Job: %w", err)
	}
	return p.poll(ctx, name, "a Job did not complete", func(ctx context.Context) (bool, error) {
		found, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range found.Status.Conditions {
			switch {
			case c.Status != corev1.ConditionTrue:
			case c.Type == batchv1.JobComplete:
				return true, nil
			case c.Type == batchv1.JobFailed:
				return false, errors.New(text.Bound("a Job failed: "+c.Message, maxReasonBytes))
			}
		}
		return false, nil
	})
}

// poll calls done until it returns true. After the time of ctx, the error is why the Pods of an app
// do not run.
func (p *prober) poll(ctx context.Context, name, problem string, done func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, done)
	if err == nil || !wait.Interrupted(err) {
		return err //nolint:wrapcheck // It is that of done.
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	pods, listed := p.Remote.CoreV1().Pods(p.namespace).List(late, metav1.ListOptions{LabelSelector: app + "=" + name})
	if listed != nil {
		return fmt.Errorf("%s within %s", problem, p.Timeout)
	}
	return fmt.Errorf("%s within %s: %s", problem, p.Timeout, whyNot(pods.Items))
}

// whyNot returns why Pods do not run.
func whyNot(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return "it has no Pods"
	}
	var reasons []string
	add := func(reason, message string) {
		if said := text.Bound(strings.TrimSuffix(reason+": "+message, ": "), maxReasonBytes); !slices.Contains(reasons, said) {
			reasons = append(reasons, said)
		}
	}
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				add(c.Reason, c.Message)
			}
		}
		for _, c := range pod.Status.ContainerStatuses {
			if waiting := c.State.Waiting; waiting != nil {
				add(waiting.Reason, waiting.Message)
			}
		}
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("%s, and the first is %s", text.Count(len(pods), "Pod"), pods[0].Status.Phase)
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; ")
}

// template is that of Pods which need no rights, and which every Pod Security Standard admits.
func (p *prober) template(labels map[string]string, arguments []string, tolerations []corev1.Toleration) corev1.PodTemplateSpec {
	meta := p.meta("")
	meta.Namespace = ""
	maps.Copy(meta.Labels, labels)
	return corev1.PodTemplateSpec{ObjectMeta: meta, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), Tolerations: tolerations, TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: "agnhost", Image: p.Image, Args: arguments,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		}},
	}}
}
