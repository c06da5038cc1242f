package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	containerName = "host"
	namePrefix    = "windlass-host-"
	// maxName keeps the name within what a Pod may have for a host name.
	maxName = 63
	// hashLength tells nodes apart whose names are too long.
	hashLength = 10
	// drainLabel is Cluster API's: the Pod stays while the node is drained.
	drainLabel    = "cluster.x-k8s.io/drain"
	priorityClass = "system-node-critical"
)

// podName is the same for all who run scripts on a node: they share the Pod.
func podName(node string) string {
	if name := namePrefix + node; len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(node))
	hash := hex.EncodeToString(sum[:])[:hashLength]
	return strings.TrimRight(namePrefix+node[:maxName-len(namePrefix)-1-hashLength], ".-") + "-" + hash
}

// newPod computes the Pod for a node.
func newPod(namespace, node, image string, lifetime time.Duration) *corev1.Pod {
	seconds := int64(lifetime / time.Second)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: podName(node),
			Labels: map[string]string{drainLabel: "skip", "app.kubernetes.io/name": "windlass-host"},
		},
		Spec: corev1.PodSpec{
			// The scheduler does not place Pods on a cordoned node.
			NodeName:                      node,
			HostPID:                       true,
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         &seconds,
			TerminationGracePeriodSeconds: new(int64(1)),
			PriorityClassName:             priorityClass,
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: containerName, Image: image, Command: []string{"sleep", strconv.FormatInt(seconds, 10)},
				SecurityContext: &corev1.SecurityContext{Privileged: new(true)},
			}},
		},
	}
}

// state is what to do about a Pod that is there.
type state int

const (
	// usable: it runs.
	usable state = iota
	// starting: it may run soon.
	starting
	// stuck: it does not start; the words say why. It may yet.
	stuck
	// over: it ran, and must make room for a new one.
	over
	// leaving: it is being deleted.
	leaving
	// foreign: it is not the Pod that we would make.
	foreign
)

// stateOf judges a Pod, and says in words what it is waiting for.
func stateOf(pod *corev1.Pod, node string) (s state, words string) {
	switch {
	case pod.Spec.NodeName != node || pod.Labels[drainLabel] != "skip" || !pod.Spec.HostPID:
		return foreign, "it is not a Pod of ours on node " + node
	case pod.DeletionTimestamp != nil:
		return leaving, "it is being deleted"
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return over, fmt.Sprintf("it is over: %s %s", pod.Status.Phase, pod.Status.Reason)
	}
	if len(pod.Status.ContainerStatuses) > 0 {
		return stateOfContainer(pod.Status.ContainerStatuses[0].State)
	}
	return starting, "the kubelet has not started it"
}

func stateOfContainer(container corev1.ContainerState) (s state, words string) {
	switch {
	case container.Running != nil:
		return usable, ""
	case container.Waiting == nil:
		return starting, "its container has ended"
	case container.Waiting.Reason != "" && !isStarting(container.Waiting.Reason):
		return stuck, join(container.Waiting.Reason, container.Waiting.Message)
	}
	return starting, join(container.Waiting.Reason, container.Waiting.Message)
}

func isStarting(reason string) bool {
	return reason == "ContainerCreating" || reason == "PodInitializing"
}

func join(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
