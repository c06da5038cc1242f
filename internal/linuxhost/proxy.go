package linuxhost

import (
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/windlass-dev/windlass/internal/text"
	"github.com/windlass-dev/windlass/internal/untrusted"
)

// schedulerManifest is that of the static pod whose proxies count.
const schedulerManifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"

// maxName is how many bytes of a name or an error are shown.
const maxName = 100

// variableName is the syntax of names that a shell can export.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// computeProxies returns the variables that kubeadm needs in its environment, one a line: each is
// NAME=VALUE, in base64. kubeadm copies its own variables *_proxy to the static pods and to
// kube-proxy in each run, and stores them nowhere else. It takes none from a process of Windlass,
// but those in the manifest of the scheduler, because extraEnvs may give other variables to the API
// server. Variables without a value are not kubeadm's.
func computeProxies(f Facts) (string, *Failure) {
	refused := func(format string, args ...any) (string, *Failure) {
		return "", newFailure(FileRefused, KubeadmUpgrade, "the proxies in "+schedulerManifest+
			" cannot be given to kubeadm, which would remove them: "+format+
			". Nothing was changed. Fix: correct the file on the host", args...)
	}
	var pod struct {
		Spec struct {
			Containers []struct {
				Env []struct{ Name, Value string }
			}
		}
	}
	if untrusted.Object.UnmarshalYAML([]byte(f.Scheduler), &pod) != nil {
		// The error might have a value, and a proxy's may have a password.
		return refused("it is not the YAML of a Pod")
	}
	var lines []string
	for _, container := range pod.Spec.Containers {
		for _, env := range container.Env {
			if !strings.HasSuffix(strings.ToLower(env.Name), "_proxy") || env.Value == "" {
				continue
			}
			if !variableName.MatchString(env.Name) {
				return refused("the name %q has characters that no variable may have",
					text.Bound(env.Name, maxName))
			}
			variable := env.Name + "=" + env.Value
			lines = append(lines, base64.StdEncoding.EncodeToString([]byte(variable)))
		}
	}
	return strings.Join(lines, "\n"), nil
}
