//go:build linux

package standin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// clusterVersion is what the cluster's configuration has as its version.
	clusterVersion = Folder + "/cluster-version"
	// apiDown keeps the API server from answering, and podsOld the kubelet from starting the static
	// pods again, while they are there.
	apiDown = Folder + "/api.down"
	podsOld = Folder + "/pods.old"
	// podsMore holds further pods of the kubelet, in JSON.
	podsMore = Folder + "/pods.more"
)

// askAPIServer answers as the API server of a control plane machine. The UID of a static pod is the
// version of the kubelet that has started it.
func (p *program) askAPIServer() error {
	if _, err := os.Stat(apiDown); err == nil {
		return errors.New("the connection to the server was refused")
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	asks := func(arg string) bool { return slices.Contains(p.args, arg) }
	switch {
	case asks("kubeadm-config"):
		v, err := os.ReadFile(clusterVersion)
		fmt.Fprintf(p.stdout, "apiServer: {}\nkubernetesVersion: %s\n", v)
		return err
	case asks("whoami"):
		fmt.Fprint(p.stdout, "system:node:"+host)
	case asks("/readyz"):
		fmt.Fprint(p.stdout, "ok")
	case asks("node"):
		fmt.Fprint(p.stdout, "True")
	case asks("/api/v1/nodes/" + host + "/proxy/pods"):
		if more, err := os.ReadFile(podsMore); err == nil {
			fmt.Fprint(p.stdout, string(more))
		}
		return p.printPods(host, `{"metadata":{"name":%q,"namespace":"kube-system","uid":%q}},`, "")
	case asks("pods"):
		old := ""
		if _, err := os.Stat(podsOld); err == nil {
			old = "old-"
		}
		return p.printPods(host, "%s %s True\n", old)
	default:
		return fmt.Errorf("stand-in for kubectl: unknown question %q", p.args)
	}
	return nil
}

// printPods prints the name and the UID of each static pod.
func (p *program) printPods(host, format, prefix string) error {
	kubelet, err := os.ReadFile("/run/stand-in-kubelet")
	if err != nil {
		return err
	}
	uid := prefix + strings.TrimSpace(string(kubelet))
	paths, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		fmt.Fprintf(p.stdout, format, name+"-"+host, uid)
	}
	return err
}
