package linuxhost

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-dev/windlass/pkg/version"
)

// boot has a boot or a person start the kubelet, which has an age in seconds and stays up or not.
func (h *folderHost) boot(t *testing.T, age string, good bool) {
	t.Helper()
	h.write(t, "/bin/ps", "#!/bin/bash\necho "+age+"\n", 0o700)
	if good {
		h.write(t, "/bin/good", "", 0o600)
	}
	if printed, exit := h.run(t, "systemctl start kubelet\n"); exit != 0 {
		t.Fatal(printed)
	}
	h.log(t)
}

// goOn has the clock of the host go on, so that what happened is older than a process.
func (h *folderHost) goOn(t *testing.T) {
	t.Helper()
	h.write(t, "/bin/date", "#!/bin/bash\nexec /bin/date -d '2 hours' \"$@\"\n", 0o700)
}

// TestRunningServiceIsNotStopped: a service that was held and runs since is neither stopped nor
// restarted, and what a person has changed since stays.
func TestRunningServiceIsNotStopped(t *testing.T) {
	t.Parallel()
	const since = "Nothing was put back, because kubelet was started since, and did not end again"
	const part = "Not all was put back, because kubelet was started since, and did not end again"
	const back = "Kubernetes v1.35.4 and its configuration were put back, and the service runs"
	for name, test := range map[string]struct {
		happens func(*testing.T, *folderHost)
		held    bool
		// want is part of the message of a put-back, file the content of a file after it.
		want, file string
		log        []string
	}{
		"it runs for an hour": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				h.goOn(t)
				h.boot(t, "3600", true)
			},
			want: since, file: "new\n", log: []string{""},
		},
		"it runs for a moment": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				h.boot(t, "5", true)
			},
			held: true, want: since, file: "new\n", log: []string{""},
		},
		"it is still starting": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				h.write(t, "/bin/starts", "", 0o600)
				h.boot(t, "5", false)
			},
			held: true, want: since, file: "new\n", log: []string{""},
		},
		"a put-back was cut, and it runs all the same": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				if err := os.Rename(h.root+notStarted, h.root+putBackHas); err != nil {
					t.Fatal(err)
				}
				h.goOn(t)
				h.boot(t, "3600", true)
			},
			want: part, file: "new\n", log: []string{""},
		},
		"a put-back was cut when all was back": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				if err := os.Rename(h.root+notStarted, h.root+putBackHas); err != nil {
					t.Fatal(err)
				}
				h.write(t, "/etc/default/kubelet", "old\n", 0o600)
				kubelet := h.read(t, "/bin/kubelet")
				h.write(t, keptNode+"/program", kubelet, 0o600)
				h.write(t, keptNode+"/digest", string(digestOf([]byte(kubelet)))+"\n", 0o600)
				h.goOn(t)
				h.boot(t, "3600", true)
			},
			want: back, file: "old\n", log: []string{""},
		},
		"a person repairs it while it is stopped": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				h.write(t, "/etc/default/kubelet", "repaired\n", 0o600)
				h.write(t, "/bin/good", "", 0o600)
			},
			held: true, want: "/etc/default/kubelet was changed since, and the service runs",
			file: "repaired\n", log: []string{"restart kubelet"},
		},
		"a person's repair does not help": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				h.write(t, "/etc/default/kubelet", "repaired\n", 0o600)
				h.boot(t, "5", false)
			},
			held: true, want: "/etc/default/kubelet was changed since, and the service does not stay up",
			file: "repaired\n", log: []string{"restart kubelet"},
		},
		"a person removes a file": {
			happens: func(t *testing.T, h *folderHost) {
				t.Helper()
				if err := os.Remove(h.root + "/etc/default/kubelet"); err != nil {
					t.Fatal(err)
				}
			},
			held: true, want: "/etc/default/kubelet was changed since", log: []string{"restart kubelet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeldHost(t)
			if err := os.RemoveAll(h.root + keptNode + "/files/placeholder"); err != nil {
				t.Fatal(err)
			}
			h.restart(t)
			h.log(t)
			h.runKubeletAsBash(t)
			test.happens(t, h)
			if got := h.readFacts(t).NotStarted; got != test.held {
				t.Errorf("held: %t, want %t", got, test.held)
			}
			for _, why := range []string{"", "WHY"} {
				if why != "" && test.want != since {
					continue
				}
				script := putBack(h.goal, Facts{Service: "kubelet"}, PutBack, why).Script
				// A service that is starting is watched for five minutes.
				short := strings.Replace(script, "is_calm 600 ", "is_calm 20 ", 1)
				if short == script {
					t.Fatal("put-back.sh does not watch the service 600 times")
				}
				printed, exit := h.run(t, short)
				if exit != 1 || !strings.Contains(printed, test.want) {
					t.Errorf("%d, %s, want %s", exit, printed, test.want)
				}
				if diff := cmp.Diff(test.log, withoutSleep(h.log(t))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if test.file != "" && h.read(t, "/etc/default/kubelet") != test.file {
				t.Errorf("the file has %q, want %q", h.read(t, "/etc/default/kubelet"), test.file)
			}
			if h.exists(notStarted) || h.exists(putBackHas) {
				t.Error("the mark is still there")
			}
		})
	}
}

// withoutSleep leaves out how long was waited.
func withoutSleep(log []string) []string {
	var rest []string
	for _, line := range log {
		if !strings.HasPrefix(line, "sleep ") {
			rest = append(rest, line)
		}
	}
	if rest == nil {
		return []string{""}
	}
	return rest
}

// TestServiceThatRanSince: a service that was started since its Node was looked up, and ended, may
// have registered. It is held again, once, so that the Node can be looked up.
func TestServiceThatRanSince(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	h.restart(t)
	h.boot(t, "5", false)
	h.write(t, "/bin/state", "failed\n", 0o600)
	if printed, exit := h.run(t, h.putBack(PutBack)); exit != 0 || !h.readFacts(t).NotStarted {
		t.Fatalf("%d, %s", exit, printed)
	}
	if content := h.read(t, "/etc/default/kubelet"); content != "new\n" {
		t.Errorf("without a look at the Node, the file has %q", content)
	}
	h.write(t, "/bin/good", "", 0o600)
	printed, exit := h.run(t, h.putBack(PutBackAgain))
	if exit != 1 || h.read(t, "/etc/default/kubelet") != "old\n" {
		t.Errorf("%d, %s", exit, printed)
	}
}

// TestHeldUnitThatIsNotEnabled: an agent that was started without being enabled is found again
// while it is held, and gets back what it ran with.
func TestHeldUnitThatIsNotEnabled(t *testing.T) {
	t.Parallel()
	h := newHeldHost(t)
	h.goal.Distribution, h.goal.Version = K3s, version.MustParse("v1.36.3+k3s1")
	h.write(t, "/bin/systemctl", "#!/bin/bash\ncase \"$*\" in *' k3s' | is-enabled*) exit 1 ;; esac\n"+
		heldSystemctl, 0o700)
	h.write(t, "/bin/k3s", "#!/bin/bash\necho k3s version v1.36.3+k3s1\n", 0o700)
	const config = "/etc/rancher/k3s/config.yaml"
	h.write(t, config, "new: 1\n", 0o600)
	h.write(t, keptNode+"/files"+h.root+config, "old: 1\n", 0o600)
	action, _ := restartStep(h.goal, Facts{Service: "k3s-agent"}, commandLimit).Action.(Run)
	if printed, exit := h.run(t, action.Script); exit != 1 {
		t.Fatal(printed)
	}
	facts := h.readFacts(t)
	if facts.Service != "k3s-agent" || !facts.NotStarted {
		t.Fatalf("the service is %q, held: %t", facts.Service, facts.NotStarted)
	}
	h.write(t, "/bin/good", "", 0o600)
	printed, _ := h.run(t, putBack(h.goal, facts, PutBack, "").Script)
	if got := h.read(t, config); got != "old: 1\n" || !strings.Contains(printed, "and the service runs") {
		t.Errorf("the file has %q; %s", got, printed)
	}
	h.log(t)
	h.later(t)
	if diff := cmp.Diff([]string{""}, withoutSleep(h.log(t))); diff != "" {
		t.Errorf("after the put-back (-want +got):\n%s", diff)
	}
}

// TestUnitThatIsStarting: a unit that is not enabled and ends again and again is found, too.
func TestUnitThatIsStarting(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"activating": "k3s-agent", "failed": "k3s-agent", "inactive": "",
	} {
		h := newFolderHost(t, nil, map[string]string{
			"systemctl": "case \"$*\" in *ActiveState*agent) echo " + state + " ;; *) exit 1 ;; esac\n",
		})
		h.goal.Distribution = K3s
		if got := h.readFacts(t).Service; got != want {
			t.Errorf("%s: the service is %q, want %q", state, got, want)
		}
	}
}

// TestRepairIsKept: a configuration that a person has repaired, and that the service is seen to run
// with, is what later comes back, also in the same operation.
func TestRepairIsKept(t *testing.T) {
	t.Parallel()
	const file = "/etc/default/kubelet"
	for name, test := range map[string]struct {
		age     string
		program string
		want    string
	}{
		"it runs with it":         {"3600", newKubelet, "repaired\n"},
		"it does not run with it": {"5", newKubelet, "old\n"},
		"another program is kept": {"3600", oldKubelet, "old\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHeldHost(t)
			h.write(t, keptNode+"/program", test.program, 0o700)
			h.write(t, keptNode+"/digest", string(digestOf([]byte(test.program)))+"\n", 0o600)
			h.write(t, keptNode+"/operation", h.root+StateFolder+"/op/"+h.goal.Operation(), 0o600)
			h.write(t, notStarted, "v1.36.3 1 1 kubelet\nwords\n", 0o600)
			before := time.Now().Add(-time.Minute)
			if err := os.Chtimes(h.root+keptNode+"/digest", before, before); err != nil {
				t.Fatal(err)
			}
			h.write(t, file, "repaired\n", 0o600)
			h.goOn(t)
			h.boot(t, test.age, true)
			action, _ := restartStep(h.goal, Facts{Service: "kubelet"}, commandLimit).Action.(Run)
			h.write(t, "/bin/systemctl", strings.Replace("#!/bin/bash\n"+heldSystemctl, "restart*)", "restart*) rm -f good;", 1), 0o700)
			if printed, exit := h.run(t, action.Script); exit != 1 {
				t.Fatal(printed)
			}
			if got := h.read(t, keptNode+"/files"+h.root+file); got != test.want {
				t.Errorf("%q is kept, want %q", got, test.want)
			}
		})
	}
}
