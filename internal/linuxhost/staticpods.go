package linuxhost

import (
	"path/filepath"
	"strings"
)

// StaticPod is a Pod, as NAMESPACE/NAME, and the path of the file that defines it.
type StaticPod struct{ Pod, Path string }

// parseStaticPods reads what static_pods in lib-pods.sh found.
func parseStaticPods(text string) []StaticPod {
	var pods []StaticPod
	for line := range strings.SplitSeq(text, "\n") {
		if pod, path, found := strings.Cut(line, " "); found {
			pods = append(pods, StaticPod{Pod: pod, Path: path})
		}
	}
	return pods
}

// refuseStaticPods refuses a control plane host on which two files define one static Pod, such as a
// manifest and its backup beside it: the kubelet runs only one of them. If that is the copy, kubeadm
// upgrade waits in vain for the Pod of the manifest that it has written, and rolls back.
func refuseStaticPods(g Goal, f Facts) *Failure {
	if f.Begun || f.Installed == g.Version || !f.ControlPlane {
		return nil
	}
	files := map[string]string{}
	for _, p := range f.StaticPods {
		first, twice := files[p.Pod]
		if !twice {
			files[p.Pod] = p.Path
			continue
		}
		return newFailure(ConfigUnsupported, KubeadmUpgrade, "%s and %s define one static Pod, %s. The "+
			"kubelet reads every file in that folder, whatever its extension, and runs one of the two, so "+
			"that kubeadm upgrade may wait in vain for the other. Nothing was changed. Fix: move the copy "+
			"out of %s, and wait until the Pod of the other file runs", first, p.Path, p.Pod,
			filepath.Dir(p.Path))
	}
	return nil
}
