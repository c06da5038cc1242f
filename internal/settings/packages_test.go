package settings_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/internal/settings"
)

// TestPackages: commands and files that install kubeadm or the kubelet of a fixed version are a warning
// unless that is the version of the step.
func TestPackages(t *testing.T) {
	t.Parallel()
	const (
		pins       = "apt-get install -y kubelet=1.35.4-1.1 kubeadm=1.35.4-1.1"
		repository = "echo 'deb [signed-by=/x] https://pkgs.k8s.io/core:/stable:/v1.35/deb/ /' > /etc/apt/sources.list.d/kubernetes.list"
		// fallback reaches the address by way of another variable.
		fallback = `for f in /run/kubeadm/*.yaml; do FULL=$(grep kubernetesVersion: "$f" | cut -d' ' -f2) && break; done
[ -z "$FULL" ] && FULL="v1.35.0"
MINOR=$(echo "$FULL" | sed 's/x/x/')
echo "baseurl=https://pkgs.k8s.io/core:/stable:/${MINOR}/rpm/"
dnf install -y kubelet kubeadm`
		download = `curl -L --remote-name-all https://dl.k8s.io/release/${RELEASE}/bin/linux/${ARCH}/{kubeadm,kubelet}`
		others   = `CRICTL_VERSION=v1.35.0 CNI=v1.35.1
curl -LO https://dl.k8s.io/release/v1.35.4/bin/linux/${ARCH}/kubectl
curl https://github.com/kubernetes-sigs/cri-tools/releases/download/${CRICTL_VERSION}/crictl.tar.gz
echo deb https://pkgs.k8s.io/addons:/cri-o:/stable:/v1.35/deb/ /
# apt-get install -y kubeadm=1.35.4-1.1
apt-get install -y containerd.io=1.7.24-1 kubectl=1.35.4-1.1`
	)
	for name, test := range map[string]struct {
		from, to, command, file string
		// want are ids with the minors that they are found at.
		want string
	}{
		"pins":                     {to: "v1.36.1", command: pins, want: "v1.35.4 at v1.36"},
		"pins of the target":       {to: "v1.35.4", command: pins},
		"pins of another patch":    {to: "v1.35.6", command: pins, want: "v1.35.4 at v1.35"},
		"pins of the next step":    {from: "v1.33.9", to: "v1.35.4", command: pins, want: "v1.35.4 at v1.34"},
		"dnf":                      {to: "v1.36.1", command: "dnf install -y kubelet-1.35.4 kubeadm-1.35.4", want: "v1.35.4 at v1.36"},
		"any patch":                {to: "v1.36.1", command: "apt install 'kubeadm=1.35.*'", want: "v1.35 at v1.36"},
		"a repository":             {to: "v1.36.1", command: repository, want: "v1.35 at v1.36"},
		"a repository, same minor": {to: "v1.35.6", command: repository},
		"a fallback":               {to: "v1.36.1", command: fallback, want: "v1.35 at v1.36"},
		"a fallback, same minor":   {to: "v1.35.6", command: fallback},
		"an address": {
			to: "v1.36.1", command: "curl -LO https://dl.k8s.io/release/v1.35.4/bin/linux/amd64/kubelet", want: "v1.35.4 at v1.36",
		},
		"a variable":              {to: "v1.36.1", command: "export ARCH=amd64 RELEASE=v1.35.4\n" + download, want: "v1.35.4 at v1.36"},
		"a variable of a file":    {to: "v1.36.1", command: download, file: "RELEASE=\"v1.35.4\"\n", want: "v1.35.4 at v1.36"},
		"a variable, pinned":      {to: "v1.36.1", command: "V='1.35.4-1.1'; apt install kubeadm=$V kubelet=\"$V\"", want: "v1.35.4 at v1.36"},
		"a script in a file":      {to: "v1.36.1", command: "/install.sh", file: pins, want: "v1.35.4 at v1.36"},
		"asked of the net":        {to: "v1.36.1", command: "RELEASE=$(curl -sSL https://dl.k8s.io/release/stable.txt)\n" + download},
		"other programs, remarks": {to: "v1.36.1", command: others},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := map[string]any{
				"preKubeadmCommands": []any{"modprobe overlay", test.command},
				"files":              []any{map[string]any{"path": "/install.sh", "content": test.file}},
			}
			object := settings.Object{Kind: "KubeadmConfigTemplate", Name: "md", Content: map[string]any{
				"spec": map[string]any{"template": map[string]any{"spec": spec}},
			}}
			uses := settings.FromObject(object)
			var got []string
			for _, f := range settings.Check(upgrade(test.from, test.to), uses) {
				got = append(got, f.Name+" at "+f.At.String())
				if !f.Warning || f.ID() != "kubeadm/packages="+f.Name || !strings.HasPrefix(f.Path, "spec.template.spec.") {
					t.Errorf("%+v", f)
				}
			}
			if diff := cmp.Diff(test.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i := range uses {
				uses[i].Passing = true
			}
			if found := settings.Check(upgrade(test.from, test.to), uses); len(found) > 0 {
				t.Errorf("of a class that may replace them: %+v", found)
			}
		})
	}
}

// TestPackagesOfManyVariables: a tenant's bootstrap config may have as many variables as its object
// has room for, one reaching the next. Each is followed once, and each line is read once.
func TestPackagesOfManyVariables(t *testing.T) {
	t.Parallel()
	const many = 30_000
	var lines, line strings.Builder
	for i := many; i > 0; i-- {
		fmt.Fprintf(&lines, "V%d=$V%d\n", i-1, i)
		fmt.Fprintf(&line, "W%d=$V0 ", i)
	}
	spec := map[string]any{"preKubeadmCommands": []any{
		lines.String(), line.String(), fmt.Sprintf("V%d=v1.35.4", many),
		"curl https://pkgs.k8s.io/core:/stable:/${V0}/deb/",
	}}
	uses := settings.FromKubeadm(settings.Place{Object: "a", Path: "spec"}, spec)
	var names []string
	for _, u := range uses {
		names = append(names, u.Name)
	}
	if diff := cmp.Diff([]string{"v1.35"}, names); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
}
