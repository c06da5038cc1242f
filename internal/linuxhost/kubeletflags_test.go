package linuxhost_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/windlass-dev/windlass/internal/linuxhost"
)

func TestKubeletFlags(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		content string
		args    []linuxhost.Arg
		want    string
	}{
		"set and added": {
			content: "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --max-pods=110 --v=2\"\n# mine\n",
			args:    []linuxhost.Arg{{Name: "max-pods", Value: "50"}, {Name: "node-labels", Value: "a=b,c=d"}},
			want:    "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --v=2 --max-pods=50 --node-labels=a=b,c=d\"\n# mine\n",
		},
		"quotes inside, as kubeadm writes them": {
			content: `KUBELET_KUBEADM_ARGS="--a=b --image-credential-provider-config=\"/etc/x y.yaml\""` + "\n",
			args:    []linuxhost.Arg{{Name: "v", Value: "2"}},
			want:    `KUBELET_KUBEADM_ARGS="--a=b --image-credential-provider-config=\"/etc/x y.yaml\" --v=2"` + "\n",
		},
		"an argument in quotes is replaced": {
			content: `KUBELET_KUBEADM_ARGS="'--v=a b' --a=b"` + "\n",
			args:    []linuxhost.Arg{{Name: "v", Value: "2"}},
			want:    `KUBELET_KUBEADM_ARGS="--a=b --v=2"` + "\n",
		},
		"a value in a word of its own": {
			content: `KUBELET_KUBEADM_ARGS="--v 4 --a b --c"` + "\n",
			args:    []linuxhost.Arg{{Name: "v", Value: "2"}, {Name: "c", Value: "true"}},
			want:    `KUBELET_KUBEADM_ARGS="--a b --v=2 --c=true"` + "\n",
		},
		"no quotes":                 {content: "KUBELET_KUBEADM_ARGS=--a=b\n", args: []linuxhost.Arg{{Name: "v", Value: "2"}}, want: "KUBELET_KUBEADM_ARGS=\"--a=b --v=2\"\n"},
		"no file":                   {content: "", args: []linuxhost.Arg{{Name: "v", Value: "2"}}, want: "KUBELET_KUBEADM_ARGS=\"--v=2\"\n"},
		"no value":                  {content: "KUBELET_KUBEADM_ARGS=\"\"\n", args: []linuxhost.Arg{{Name: "v", Value: "2"}}, want: "KUBELET_KUBEADM_ARGS=\"--v=2\"\n"},
		"the name is no prefix":     {content: "KUBELET_KUBEADM_ARGS=\"--vmodule=a\"\n", args: []linuxhost.Arg{{Name: "v", Value: "2"}}, want: "KUBELET_KUBEADM_ARGS=\"--vmodule=a --v=2\"\n"},
		"a value that is no option": {content: "KUBELET_KUBEADM_ARGS=\"--a v\"\n", args: []linuxhost.Arg{{Name: "v", Value: "2"}}, want: "KUBELET_KUBEADM_ARGS=\"--a v --v=2\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := linuxhost.ComputeKubeletFlags(tt.content, tt.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeletFlagsRefused has files that systemd, Go and kubeadm read in different ways.
func TestKubeletFlagsRefused(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"a quote that is open":           `KUBELET_KUBEADM_ARGS="--a=b`,
		"a word that is open":            `KUBELET_KUBEADM_ARGS="--a='b"`,
		"more after the quote":           `KUBELET_KUBEADM_ARGS="--a=b" --c`,
		"an escape of Go's":              `KUBELET_KUBEADM_ARGS="--a=b\n"`,
		"a backslash in a word":          `KUBELET_KUBEADM_ARGS="--a=b\\c"`,
		"a variable":                     `KUBELET_KUBEADM_ARGS="--a=$HOME"`,
		"a command":                      "KUBELET_KUBEADM_ARGS=\"--a=`id`\"",
		"single quotes around it":        `KUBELET_KUBEADM_ARGS='--a=b'`,
		"a line that goes on":            "KUBELET_KUBEADM_ARGS=\"--a=b \\\n--c\"",
		"a line before it that goes on":  "X=a\\\nKUBELET_KUBEADM_ARGS=\"--a=b\"",
		"a value before it that is open": "X=\"a\nKUBELET_KUBEADM_ARGS=b\"",
		"twice":                          "KUBELET_KUBEADM_ARGS=\"--a=b\"\nKUBELET_KUBEADM_ARGS=\"--a=c\"",
		"blanks around the name":         ` KUBELET_KUBEADM_ARGS ="--a=b"`,
		"no ASCII":                       `KUBELET_KUBEADM_ARGS="--a=é"`,
	} {
		if got, err := linuxhost.ComputeKubeletFlags(content+"\n", []linuxhost.Arg{{Name: "v", Value: "2"}}); err == nil {
			t.Errorf("%s: %q became %q", name, content, got)
		}
	}
	for _, value := range []string{"a b", `"`, "'", "$x", "`id`", `\`, "a\nb", "é"} {
		if got, err := linuxhost.ComputeKubeletFlags("", []linuxhost.Arg{{Name: "v", Value: value}}); err == nil {
			t.Errorf("the value %q became %q", value, got)
		}
	}
}

// TestKubeletFlagsAgain: what was set once is set; steps are computed anew whenever somebody looks.
func TestKubeletFlagsAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{1,2}`)
		var content strings.Builder
		for _, name := range rapid.SliceOf(word).Draw(t, "flags") {
			quote := rapid.SampledFrom([]string{"", "'", `\"`}).Draw(t, "quote")
			content.WriteString(" " + quote + "--" + name + "=" + word.Draw(t, "value") + quote)
		}
		var args []linuxhost.Arg
		for _, name := range rapid.SliceOf(word).Draw(t, "args") {
			args = append(args, linuxhost.Arg{Name: name, Value: word.Draw(t, "value")})
		}
		once, err := linuxhost.ComputeKubeletFlags("KUBELET_KUBEADM_ARGS=\""+content.String()+"\"\n", args)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := linuxhost.ComputeKubeletFlags(once, args); err != nil || twice != once {
			t.Fatalf("%q, and then %q: %v", once, twice, err)
		}
		for _, arg := range args {
			if !strings.Contains(once, "--"+arg.Name+"="+arg.Value) {
				t.Fatalf("%q lacks %v", once, arg)
			}
		}
	})
}

// FuzzKubeletFlags: a file that is accepted is the same when its arguments are set again, and it keeps the arguments that are not set.
func FuzzKubeletFlags(f *testing.F) {
	f.Add("KUBELET_KUBEADM_ARGS=\"--a=b --c\"\nX=1\n", "z")
	f.Add(`KUBELET_KUBEADM_ARGS="--x=\"/etc/x y.yaml\" '--q=a b'"`, "2")
	f.Add("KUBELET_KUBEADM_ARGS=\"\"", "")
	f.Add("KUBELET_KUBEADM_ARGS=--a 0", "0")
	f.Fuzz(func(t *testing.T, content, argument string) {
		args := []linuxhost.Arg{{Name: "a", Value: argument}}
		once, err := linuxhost.ComputeKubeletFlags(content, args)
		if err != nil {
			return
		}
		twice, err := linuxhost.ComputeKubeletFlags(once, args)
		if err != nil || once != twice {
			t.Fatalf("%q, then %q: %v", once, twice, err)
		}
		if kept, err := linuxhost.ComputeKubeletFlags(once, nil); err != nil || kept != once {
			t.Fatalf("%q without arguments is %q: %v", once, kept, err)
		}
	})
}
