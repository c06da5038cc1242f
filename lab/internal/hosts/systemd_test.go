//go:build linux

package hosts_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-dev/windlass/lab/internal/hosts"
)

// step is a script and what it must print.
type step struct {
	script, want string
}

func walk(t *testing.T, h *hosts.Host, steps []step) {
	t.Helper()
	for _, s := range steps {
		output, err := h.Run(t.Context(), s.script)
		if got := strings.TrimSpace(output); got != s.want {
			t.Fatalf("%s\n got: %s\nwant: %s\n(%v)", s.script, got, s.want, err)
		}
	}
}

const until = `until_is() { until [ "$(systemctl show -p "$2" --value "$1")" = "$3" ]; do read -t 0.01 <> <(:); done; echo "$3"; }; `

// says waits for a unit's last line: its start does not.
const says = `says() { until [ "$(journalctl -u "$1" -n 1)" = "$2" ]; do read -t 0.01 <> <(:); done; echo "$2"; }; `

func TestServices(t *testing.T) {
	h := hosts.Start(t, hosts.Options{
		Enable: []string{"app"},
		Files: map[string][]byte{
			"/etc/systemd/system/app.service": []byte("[Unit]\nStartLimitIntervalSec=0\n[Service]\nEnvironment=WORD=unit\nEnvironmentFile=-/etc/default/app\n" +
				"ExecStart=/bin/bash -c 'echo running $${WORD}; sleep 1001 & exec sleep 1000'\nRestart=always\nRestartSec=10ms\n[Install]\nWantedBy=multi-user.target\n"),
			"/usr/lib/systemd/system/other.service": []byte("[Service]\nExecStart=/bin/false\n"),
			"/etc/systemd/system/broken.service":    []byte("[Service]\nExecStart=/no/such/program\n"),
			"/etc/systemd/system/once.service":      []byte("[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/echo one\nExecStart=-/bin/false\nExecStart=/bin/echo two\n"),
			"/etc/systemd/system/never.service":     []byte("[Service]\nType=notify\nExecStart=/bin/false\n"),
		},
	})
	walk(t, h, []step{
		{"systemctl is-active app; systemctl is-enabled app", "active\nenabled"},
		{says + "says app 'running unit'; journalctl --no-pager -u app -n1 -o cat", "running unit\nrunning unit"},
		// A change counts after daemon-reload only.
		{"mkdir /etc/systemd/system/app.service.d; printf '[Service]\\nEnvironment=WORD=drop-in\\n' >/etc/systemd/system/app.service.d/10.conf; " +
			"systemctl show -p NeedDaemonReload --value app", "yes"},
		{says + "systemctl restart app 2>&1 | cut -c 1-40; says app 'running unit'", "Warning: The unit file, source configura\nrunning unit"},
		{says + "systemctl daemon-reload; systemctl restart app; says app 'running drop-in'", "running drop-in"},
		{says + "echo WORD=\\\"a file\\\" >/etc/default/app; systemctl restart app; says app 'running a file'", "running a file"},
		// What a drop-in resets is gone.
		{says + "printf '[Service]\\nExecStart=\\nExecStart=/bin/bash -c \"echo reset; exec sleep 1002\"\\n' >/etc/systemd/system/app.service.d/20.conf; " +
			"systemctl daemon-reload; systemctl restart app; says app reset; pgrep -c -f 'sleep 100[12]$'", "reset\n1"},
		// It comes up again by itself.
		{until + "kill -9 $(systemctl show -p MainPID --value app); until_is app NRestarts 1; until_is app ActiveState active", "1\nactive"},
		{"systemctl kill -s KILL app; " + until + "until_is app NRestarts 2; until_is app ActiveState active", "2\nactive"},
		{"systemctl stop app; systemctl is-active app; pgrep -c -x sleep", "inactive\n0"},
		{"systemctl show -p ActiveState,MainPID app", "MainPID=0\nActiveState=inactive"},
		// Failures.
		{"systemctl start other; " + until + "until_is other ActiveState failed; systemctl show -p Result -p ExecMainStatus --value other", "failed\nexit-code\n1"},
		{"systemctl reset-failed other; systemctl is-active other; systemctl is-enabled other", "inactive\ndisabled"},
		{"systemctl start broken; " + until + "until_is broken ExecMainStatus 203", "203"},
		{"systemctl start never 2>&1 | head -n 1; systemctl is-failed never",
			"Job for never.service failed because the control process exited with error code.\nfailed"},
		{"systemctl start nothing; echo $?; systemctl status nothing 2>&1; echo $?",
			"Failed to start nothing.service: Unit nothing.service not found.\n5\nUnit nothing.service could not be found.\n4"},
		{"systemctl start once; systemctl start once; systemctl is-active once; systemctl show -p SubState --value once; journalctl -u once | grep -v systemd", "active\nexited\none\ntwo"},
		{"systemctl frobnicate app; systemctl --frobnicate", "Unknown command verb frobnicate.\nsystemctl: unrecognized option '--frobnicate'"},
		{"systemctl disable app 2>/dev/null; systemctl is-enabled app; systemctl enable --now app 2>/dev/null; systemctl is-enabled app; systemctl is-active app",
			"disabled\nenabled\nactive"},
	})
}

func TestAServiceThatFailsTooOftenIsGivenUp(t *testing.T) {
	h := hosts.Start(t, hosts.Options{Files: map[string][]byte{
		"/etc/systemd/system/bad.service": []byte("[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=1ms\n"),
	}})
	walk(t, h, []step{
		{"systemctl start bad; " + until + "until_is bad Result start-limit-hit; systemctl is-active bad", "start-limit-hit\nfailed"},
		{"systemctl start bad 2>/dev/null || echo refused; systemctl reset-failed bad; systemctl start bad && echo started", "refused\nstarted"},
	})
}

func TestSystemdRun(t *testing.T) {
	h := hosts.Start(t, hosts.Options{})
	client := mustDial(t, h, "root")
	if output, err := over(t, client, "systemd-run --unit=job --collect --property=StandardOutput=append:/var/log/job -p OOMScoreAdjust=-900 "+
		"bash -c 'echo begun; until test -e /run/go; do read -t 0.01 <> <(:); done; echo done'"); err != nil || output != "Running as unit: job.service" {
		t.Fatalf("%q, %v", output, err)
	}
	_ = client.Close() // the job does not need it
	walk(t, h, []step{
		{"systemctl is-active job", "active"},
		{"systemd-run --unit=job --collect --quiet true; echo $?", "Failed to start transient service unit: Unit job.service was already loaded or has a fragment file.\n1"},
		{"touch /run/go; " + until + "until_is job LoadState not-found; cat /var/log/job", "not-found\nbegun\ndone"},
		{"systemd-run --unit=job --quiet --wait bash -c 'exit 3'; echo $?; systemctl is-active job", "3\nfailed"},
		// It failed and is not collected: the name is taken until reset-failed.
		{"systemd-run --unit=job --quiet true 2>/dev/null || echo refused; systemctl reset-failed job; systemd-run --unit=job --quiet true && echo again", "refused\nagain"},
		{"systemd-run --quiet --wait --unit=v --setenv=A=b --working-directory=/usr bash -c 'echo $PWD ${A} $HOME.'; journalctl -u v | head -n 1", "/usr b ."},
		{"systemd-run --quiet --unit=n --property=Nonsense=1 true; systemd-run --quiet /no/such", "unknown assignment: Nonsense=1\n" +
			"Failed to find executable /no/such: No such file or directory"},
	})
}

func TestStandInsOfKubeadm(t *testing.T) {
	old, err := hosts.StandIn("v1.35.4")
	if err != nil {
		t.Fatal(err)
	}
	next, err := hosts.StandIn("v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"/etc/systemd/system/kubelet.service": []byte("[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/usr/bin/kubelet $ARGS\nRestart=always\nRestartSec=10ms\n" +
			"[Install]\nWantedBy=multi-user.target\n"),
		"/etc/kubernetes/manifests/kube-apiserver.yaml": []byte("    image: registry.k8s.io/kube-apiserver:v1.35.4\n"),
		"/etc/kubernetes/manifests/etcd.yaml":           []byte("    image: registry.k8s.io/etcd:3.5.1\n"),
	}
	for name, content := range next {
		if bytes.Equal(content, old[name]) {
			t.Errorf("%s: the same for both versions", name)
		}
		files["/usr/bin/"+name] = old[name]
		files["/opt/next/"+name] = content
	}
	h := hosts.Start(t, hosts.Options{Files: files, Enable: []string{"kubelet"}})
	walk(t, h, []step{
		{"kubeadm version -o short; kubelet --version; kubectl version --client -o yaml | head -n 2", "v1.35.4\nKubernetes v1.35.4\nclientVersion:\n  gitVersion: v1.35.4"},
		{"kubectl version --client -o json | grep git", `"gitVersion": "v1.35.4"`},
		{until + "until [ -e /run/stand-in-kubelet ]; do :; done; cat /run/stand-in-kubelet; readlink /proc/$(pgrep -x kubelet)/exe", "v1.35.4\n/usr/bin/kubelet"},
		{"cp /opt/next/kubelet /usr/bin/.kubelet && mv /usr/bin/.kubelet /usr/bin/kubelet && cat /run/stand-in-kubelet; readlink /proc/$(pgrep -x kubelet)/exe",
			"v1.35.4\n/usr/bin/kubelet (deleted)"},
		{"systemctl restart kubelet; until grep -s 36 /run/stand-in-kubelet; do :; done", "v1.36.3"},
		{"mkdir -p /etc/stand-in; echo no etcd >/etc/stand-in/kubeadm.fail; /opt/next/kubeadm upgrade apply v1.36.3 -y; echo $?", "error execution phase: no etcd\n1"},
		{"test -e /var/lib/kubelet/config.yaml || echo untouched", "untouched"},
		{"rm /etc/stand-in/kubeadm.fail; touch /etc/stand-in/kubeadm.hang; systemd-run -q -u up --collect /opt/next/kubeadm upgrade apply v1.36.3 -y; systemctl is-active up",
			"active"},
		{"until [ $(wc -l </var/log/stand-in-kubeadm.log) = 3 ]; do :; done; rm /etc/stand-in/kubeadm.hang; until grep -q 'done' /var/log/stand-in-kubeadm.log; do :; done; " +
			"cut -d' ' -f 2- /var/log/stand-in-kubeadm.log | tail -n 2", "v1.36.3 begin upgrade apply v1.36.3 -y\nv1.36.3 done upgrade apply v1.36.3 -y"},
		{"grep -h image: /etc/kubernetes/manifests/*; grep -c v1.36.3 /var/lib/kubelet/config.yaml", "image: registry.k8s.io/etcd:3.5.1\n    image: registry.k8s.io/kube-apiserver:v1.36.3\n1"},
	})
}

func TestStandInsOfDistributions(t *testing.T) {
	for _, c := range []struct{ name, version string }{{"k3s", "v1.36.3+k3s1"}, {"rke2", "v1.36.3+rke2r1"}} {
		t.Run(c.name, func(t *testing.T) {
			programs, err := hosts.StandIn(c.version)
			if err != nil {
				t.Fatal(err)
			}
			h := hosts.Start(t, hosts.Options{Enable: []string{c.name}, Files: map[string][]byte{
				"/usr/local/bin/" + c.name:                   programs[c.name],
				"/etc/systemd/system/" + c.name + ".service": fmt.Appendf(nil, "[Service]\nType=notify\nExecStart=/usr/local/bin/%s server\n", c.name),
			}})
			walk(t, h, []step{
				{c.name + " --version | head -n 1", c.name + " version " + c.version + " (abc)"},
				{"cat /run/stand-in-" + c.name + "; pgrep -c -x " + c.name, c.version + "\n1"},
				{c.name + " etcd-snapshot save --name before >/dev/null; cat /var/lib/rancher/" + c.name + "/server/db/snapshots/before-host-*", "snapshot of " + c.version},
				{"systemctl stop " + c.name + "; systemctl is-active " + c.name + "; ls /run/stand-in-" + c.name + " 2>/dev/null", "inactive"},
			})
		})
	}
}
