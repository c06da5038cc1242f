package linuxhost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/pkg/version"
)

// rancherHost makes a host of RKE2 or K3s on which a unit is enabled. Its command line is the
// unit's.
func rancherHost(t *testing.T, d Distribution, unit, line string, files map[string]string) *folderHost {
	t.Helper()
	h := newFolderHost(t, files, map[string]string{
		"systemctl": fmt.Sprintf(`case "$*" in
"is-enabled --quiet %[1]s") ;;
"show --property ExecStart --value %[1]s") echo "{ path=/x ; argv[]=%[2]s ; ignore_errors=no }" ;;
"show --property Environment --value %[1]s") ;;
*) exit 1 ;;
esac
`, unit, line),
		string(d): "echo x version v1.35.4+x1\n",
	})
	h.goal.Distribution = d
	h.goal.Version = version.MustParse("v1.36.3+" + string(d) + "r1")
	return h
}

func (h *folderHost) facts(t *testing.T) Facts {
	t.Helper()
	printed, exit := h.run(t, FactsScript(h.goal))
	facts, err := ParseFacts(printed)
	if err != nil || exit != 0 {
		t.Fatalf("%v, exit code %d\n%s", err, exit, printed)
	}
	return facts
}

// TestAgentAsksItsAPIServer: an agent of RKE2 has two balancers, and only one of them is that of
// the API server. Its kubelet knows which.
func TestAgentAsksItsAPIServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		d      Distribution
		server string
		config map[string]string
		data   string
	}{
		"RKE2": {d: RKE2, server: "https://127.0.0.1:6443"},
		"K3s":  {d: K3s, server: "https://127.0.0.1:6444"},
		"RKE2 with another port and folder": {
			d: RKE2, server: "https://[::1]:7443", data: "/opt/rke2",
			config: map[string]string{"/etc/rancher/rke2/config.yaml.d/10.yml": "data-dir: ROOT/opt/rke2\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rancherHost(t, test.d, string(test.d)+"-agent", "/x agent", nil)
			h.addConfig(t, test.config)
			data := test.data
			if data == "" {
				data = "/var/lib/rancher/" + string(test.d)
			}
			h.write(t, data+"/agent/kubelet.kubeconfig", "clusters:\n- cluster:\n    server: "+test.server+"\n", 0o600)
			// The supervisor has no path /version.
			h.write(t, "/bin/curl", fmt.Sprintf(`#!/bin/bash
case "$*" in *"--cert %s/agent/client-kubelet.crt"*" %s/version") printf '  "gitVersion": "v1.35.9",\n' ;; *) echo 404 page not found ;; esac
`, h.root+data, test.server), 0o700)
			facts := h.facts(t)
			if got := facts.APIServer.String(); got != "v1.35.9" {
				t.Errorf("the API server is at %q", got)
			}
			facts.Arch = "amd64"
			_, refused := ComputeSteps(h.goal, facts)
			if refused == nil || refused.Reason != VersionRefused || !strings.Contains(refused.Message, "v1.35.9") {
				t.Errorf("an agent newer than its API server: %v", refused)
			}
		})
	}
}

// addConfig writes files in which ROOT is the host's root.
func (h *folderHost) addConfig(t *testing.T, files map[string]string) {
	t.Helper()
	for path, content := range files {
		h.write(t, path, strings.ReplaceAll(content, "ROOT", h.root), 0o600)
	}
}

// TestRancherSettings: a setting is found where the program itself finds it, in its order.
func TestRancherSettings(t *testing.T) {
	t.Parallel()
	const config = "/etc/rancher/k3s/config.yaml"
	for name, test := range map[string]struct {
		line  string
		files map[string]string
		want  string
	}{
		"nowhere":             {want: "/var/lib/rancher/k3s"},
		"the file":            {files: map[string]string{config: "token: x\ndata-dir: \"/a\" # there\n"}, want: "/a"},
		"its short name":      {files: map[string]string{config: "d: /a\n"}, want: "/a"},
		"a quoted name":       {files: map[string]string{config: "'data-dir' : '/a'\n"}, want: "/a"},
		"below another":       {files: map[string]string{config: "x:\n  data-dir: /a\n"}, want: "/var/lib/rancher/k3s"},
		"a drop-in":           {files: map[string]string{config + ".d/a.yaml": "data-dir: /a\n"}, want: "/a"},
		"the last drop-in":    {files: map[string]string{config: "data-dir: /a\n", config + ".d/b.yaml": "data-dir: /b\n", config + ".d/c.YML": "data-dir: /c\n"}, want: "/c"},
		"no drop-in":          {files: map[string]string{config + ".d/a.txt": "data-dir: /a\n"}, want: "/var/lib/rancher/k3s"},
		"the command line":    {line: "--data-dir /b", files: map[string]string{config: "data-dir: /a\n"}, want: "/b"},
		"with an equals sign": {line: "--data-dir=/b --x", want: "/b"},
		"short":               {line: "'-d' '/b'", want: "/b"},
		"a variable":          {files: map[string]string{"/etc/default/k3s": "K3S_DATA_DIR=/e\n"}, want: "/e"},
		"a file over a variable": {
			files: map[string]string{"/etc/default/k3s": "K3S_DATA_DIR=/e\n", config: "data-dir: /a\n"}, want: "/a",
		},
		"another file": {
			line: "--config ROOT/etc/rancher/k3s/my", files: map[string]string{"/etc/rancher/k3s/my": "data-dir: /a\n", config: "data-dir: /b\n"}, want: "/a",
		},
		"drop-ins of another file": {
			files: map[string]string{"/etc/default/k3s": "K3S_CONFIG_FILE=ROOT/etc/rancher/k3s/my\n", "/etc/rancher/k3s/my.d/a.yaml": "data-dir: /c\n"}, want: "/c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := rancherHost(t, K3s, "k3s", "", nil)
			h.addConfig(t, test.files)
			h.addConfig(t, map[string]string{"/argv": "/x server " + test.line})
			h.write(t, "/bin/systemctl", "#!/bin/bash\ncase \"$*\" in is-enabled*k3s) ;; *ExecStart*) cat \""+h.root+"/argv\" ;; *) exit 1 ;; esac\n", 0o700)
			printed, exit := h.run(t, h.goal.script("lib-rancher")+"unit=$(node_unit)\ndata_dir\n")
			if got := strings.TrimPrefix(strings.TrimSpace(printed), h.root); got != test.want || exit != 0 {
				t.Errorf("it is %q, want %q", printed, test.want)
			}
		})
	}
}

// TestServerIsAMember: a server with its data elsewhere is a member of etcd all the same.
func TestServerIsAMember(t *testing.T) {
	t.Parallel()
	h := rancherHost(t, RKE2, "rke2-server", "/x server", nil)
	h.addConfig(t, map[string]string{
		"/etc/rancher/rke2/config.yaml.d/50-data.yaml": "data-dir: ROOT/opt\n", "/opt/server/db/etcd/name": "x",
	})
	if f := h.facts(t); !f.ControlPlane || !f.Member || f.Service != "rke2-server" {
		t.Errorf("%+v", f)
	}
}
