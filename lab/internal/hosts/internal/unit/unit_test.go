package unit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/unit"
)

func TestReadFoldsDropInsIntoAUnit(t *testing.T) {
	service := unit.New()
	for _, file := range []string{
		"[Unit]\nDescription=a service\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/old\nExecStartPre=-/bin/pre \\\n  x\n" +
			"Restart=always\nRestartSec=10\nEnvironment=\"A=a b\" B=c\n[Install]\nWantedBy=multi-user.target\n",
		"# a drop-in\n[Service]\nType=notify\nEnvironmentFile=-/etc/default/x\nEnvironmentFile=/etc/y\nExecStart=\nExecStart=/bin/new $A\nTimeoutStopSec=1min 5s\n",
	} {
		if err := service.Read(file); err != nil {
			t.Fatal(err)
		}
	}
	want := unit.New()
	want.Description, want.StartLimitInterval = "a service", 0
	want.Type = unit.Notify
	want.Start = []unit.Command{{Line: "/bin/new $A"}}
	want.StartPre = []unit.Command{{Line: "/bin/pre    x", IgnoreFailure: true}}
	want.Restart, want.RestartDelay, want.StopTimeout = "always", 10*time.Second, 65*time.Second
	want.Environment = []string{"A=a b", "B=c"}
	want.EnvironmentFiles = []unit.EnvironmentFile{{Path: "/etc/default/x", Optional: true}, {Path: "/etc/y"}}
	want.WantedBy = []string{"multi-user.target"}
	if diff := cmp.Diff(want, service, cmpopts.IgnoreUnexported(unit.Service{})); diff != "" {
		t.Error(diff)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no equals sign": "[Service]\nExecStart",
		"open quote":     "[Service]\nExecStart=/bin/x \"y",
		"type":           "[Service]\nType=forking",
		"time":           "[Service]\nRestartSec=soon",
	} {
		t.Run(name, func(t *testing.T) {
			if err := unit.New().Read(text); err == nil {
				t.Errorf("%q was read", text)
			}
		})
	}
}

func TestArgv(t *testing.T) {
	environment := map[string]string{"TWO": "a 'b c'", "ONE": "x"}
	for line, want := range map[string][]string{
		"/bin/x  a\tb":             {"/bin/x", "a", "b"},
		"/bin/x $TWO $NONE end":    {"/bin/x", "a", "b c", "end"},
		"/bin/x --a=${ONE}y":       {"/bin/x", "--a=xy"},
		"/bin/x ${NONE}":           {"/bin/x", ""},
		`/bin/x 'a "b' "c 'd" \ `:  {"/bin/x", `a "b`, "c 'd", " "},
		"/bin/x $$HOME 100%%":      {"/bin/x", "$HOME", "100%"},
		"/bin/x $${ONE} $1 ${ a${": {"/bin/x", "${ONE}", "$1", "${", "a${"},
	} {
		got, err := unit.Argv(line, environment)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func TestVariables(t *testing.T) {
	got := unit.Variables("# no\nA=\"--x=1 --y\"\nB='c'\n C = d \nnonsense\n1X=no\nE=\\\nf\n")
	if diff := cmp.Diff([]string{"A=--x=1 --y", "B=c", "C=d", "E=f"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		restart string
		failed  bool
		want    bool
	}{
		{"no", true, false}, {"always", false, true}, {"always", true, true}, {"on-failure", false, false}, {"on-failure", true, true},
	} {
		service := unit.New()
		service.Restart = c.restart
		if got := service.Restarts(1, c.failed); got != c.want {
			t.Errorf("%s, failed %v: %v", c.restart, c.failed, got)
		}
	}
	service := unit.New()
	if err := service.Read("[Service]\nRestart=always\nRestartPreventExitStatus=255"); err != nil {
		t.Fatal(err)
	}
	if service.Restarts(255, true) || !service.Restarts(1, true) {
		t.Error("RestartPreventExitStatus is not kept")
	}
}

func TestSetProperty(t *testing.T) {
	service := unit.New()
	for _, property := range [][2]string{{"StandardOutput", "append:/x"}, {"OOMScoreAdjust", "-900"}, {"Type", "oneshot"}} {
		if err := service.SetProperty(property[0], property[1]); err != nil {
			t.Error(err)
		}
	}
	if service.StandardOutput != "append:/x" || service.Type != unit.Oneshot {
		t.Errorf("%+v", service)
	}
	if err := service.SetProperty("Nonsense", "1"); err == nil {
		t.Error("Nonsense=1 was accepted")
	}
}
