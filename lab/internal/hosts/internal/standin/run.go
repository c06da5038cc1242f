//go:build linux

package standin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Folder holds the files that tell a stand-in how to behave: NAME.fail or NAME-VERSION.fail (it fails with the file's text), NAME.slow (it takes
// as long as the file says, such as 2s), NAME.hang (it waits, before it does anything, until the file is gone).
const Folder = "/etc/stand-in"

const (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	manifests     = "/etc/kubernetes/manifests"
)

// program is one call of a stand-in.
type program struct {
	Trailer
	args           []string
	stdout, stderr io.Writer
}

// Run is what the stand-in does with its arguments; it returns the exit status.
func Run(t Trailer, args []string, stdout, stderr io.Writer) int {
	p := &program{Trailer: t, args: args, stdout: stdout, stderr: stderr}
	var err error
	switch t.Name {
	case "kubeadm":
		err = p.kubeadm()
	case "kubelet":
		err = p.kubelet()
	case "kubectl":
		err = p.kubectl()
	default:
		err = p.distribution()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func (p *program) has(args ...string) bool {
	return len(p.args) >= len(args) && slices.Equal(p.args[:len(args)], args)
}

func (p *program) kubeadm() error {
	if p.has("version") {
		fmt.Fprintln(p.stdout, p.Version)
		return nil
	}
	if p.has("config", "images", "list") {
		return p.listImages()
	}
	return p.logged(func() error {
		switch {
		case p.has("upgrade", "apply"):
			return errors.Join(os.WriteFile(clusterVersion, []byte(p.Version), 0o600), p.writeKubeletConfig(), p.raiseManifests())
		case p.has("upgrade", "node"):
			return errors.Join(p.writeKubeletConfig(), p.raiseManifests())
		case p.has("upgrade", "plan"):
			fmt.Fprintf(p.stdout, "You can now apply the upgrade by executing the following command:\n\n\tkubeadm upgrade apply %s\n", p.Version)
		}
		return nil
	})
}

// listImages prints the images that --config asks for.
func (p *program) listImages() error {
	text, err := os.ReadFile(p.after("--config"))
	if err != nil {
		return err
	}
	setting := func(name, otherwise string) string {
		found := regexp.MustCompile(`(?m)^` + name + `: (\S+)`).FindSubmatch(text)
		if found == nil {
			return otherwise
		}
		return string(found[1])
	}
	repository := setting("imageRepository", "registry.k8s.io")
	for _, name := range []string{"apiserver", "controller-manager", "scheduler", "proxy"} {
		fmt.Fprintf(p.stdout, "%s/kube-%s:%s\n", repository, name, setting("kubernetesVersion", p.Version))
	}
	_, err = fmt.Fprintf(p.stdout, "%s/pause:3.10.1\n", repository)
	return err
}

// logged does what has effects: it is written to the log when it begins and when it has ended, and behaves as the files in
// Folder say.
func (p *program) logged(do func() error) error {
	if err := p.log("begin"); err != nil {
		return err
	}
	err := p.behave()
	if err == nil {
		err = do()
	}
	word := "done"
	if err != nil {
		word = "failed"
	}
	return errors.Join(err, p.log(word))
}

func (p *program) log(what string) error {
	file, err := os.OpenFile("/var/log/stand-in-"+p.Name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = fmt.Fprintf(file, "%s %s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), p.Version, what, strings.Join(p.args, " "))
	return err
}

func (p *program) behave() error {
	path := filepath.Join(Folder, p.Name)
	if err := waitGone(path + ".hang"); err != nil {
		return err
	}
	if text, err := os.ReadFile(path + ".slow"); err == nil {
		d, err := time.ParseDuration(strings.TrimSpace(string(text)))
		if err != nil {
			return fmt.Errorf("%s.slow: %w", path, err)
		}
		<-time.After(d)
	}
	for _, of := range []string{path, path + "-" + p.Version} {
		if text, err := os.ReadFile(of + ".fail"); err == nil {
			return fmt.Errorf("error execution phase: %s", strings.TrimSpace(string(text)))
		}
	}
	return nil
}

// waitGone returns when there is no such file.
func waitGone(path string) error {
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(watch) }()
	_, err = unix.InotifyAddWatch(watch, path, unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	buffer := make([]byte, 4096)
	for err == nil {
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		_, err = unix.Read(watch, buffer)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	return fmt.Errorf("waiting for %s to go: %w", path, err)
}

func (p *program) writeKubeletConfig() error {
	text := fmt.Sprintf("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n# written by kubeadm %s\n", p.Version)
	if err := os.MkdirAll(filepath.Dir(kubeletConfig), 0o755); err != nil {
		return err
	}
	return os.WriteFile(kubeletConfig, []byte(text), 0o644)
}

var imageTag = regexp.MustCompile(`(image: \S+/kube-[a-z-]+):v\S+`)

// raiseManifests puts the version into the static pods of a control plane; a worker has none.
func (p *program) raiseManifests() error {
	if _, err := os.Stat(filepath.Join(manifests, "kube-apiserver.yaml")); err != nil {
		return nil //nolint:nilerr // No control plane.
	}
	paths, err := filepath.Glob(filepath.Join(manifests, "kube-*.yaml"))
	for _, path := range paths {
		text, readErr := os.ReadFile(path)
		if readErr != nil {
			return readErr
		}
		err = errors.Join(err, os.WriteFile(path, imageTag.ReplaceAll(text, []byte("${1}:"+p.Version)), 0o600))
	}
	return err
}

func (p *program) kubelet() error {
	if p.has("--version") {
		fmt.Fprintf(p.stdout, "Kubernetes %s\n", p.Version)
		return nil
	}
	return p.daemon()
}

// daemon runs until it is told to end.
func (p *program) daemon() error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	if err := p.behave(); err != nil {
		return err
	}
	if err := os.WriteFile("/run/stand-in-"+p.Name, []byte(p.Version+"\n"), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "%s %s is running\n", p.Name, p.Version)
	if err := notifyReady(); err != nil {
		return err
	}
	<-told
	return os.Remove("/run/stand-in-" + p.Name)
}

func notifyReady() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	socket, err := net.Dial("unixgram", path)
	if err != nil {
		return fmt.Errorf("notifying: %w", err)
	}
	_, err = io.WriteString(socket, "READY=1")
	return errors.Join(err, socket.Close())
}

func (p *program) kubectl() error {
	switch {
	case p.has("version"):
		return p.kubectlVersion()
	case p.has("--kubeconfig"):
		return p.askAPIServer()
	}
	return p.logged(func() error { return nil })
}

func (p *program) kubectlVersion() error {
	value := map[string]any{"clientVersion": map[string]string{"gitVersion": p.Version}, "kustomizeVersion": "v5.7.1"}
	switch output := p.after("-o", "--output"); output {
	case "json":
		encoder := json.NewEncoder(p.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case "yaml":
		fmt.Fprintf(p.stdout, "clientVersion:\n  gitVersion: %s\nkustomizeVersion: v5.7.1\n", p.Version)
	default:
		fmt.Fprintf(p.stdout, "Client Version: %s\nKustomize Version: v5.7.1\n", p.Version)
	}
	return nil
}

// after is the value of an option, however it is written.
func (p *program) after(names ...string) string {
	for i, arg := range p.args {
		name, value, has := strings.Cut(arg, "=")
		switch {
		case !slices.Contains(names, name):
		case has:
			return value
		case i+1 < len(p.args):
			return p.args[i+1]
		}
	}
	return ""
}

// distribution is k3s or rke2.
func (p *program) distribution() error {
	switch {
	case p.has("--version"), p.has("-v"):
		fmt.Fprintf(p.stdout, "%s version %s (abc)\ngo version go1.26.0\n", p.Name, p.Version)
		return nil
	case p.has("server"), p.has("agent"):
		return p.daemon()
	case p.has("etcd-snapshot", "save"):
		return p.logged(p.snapshot)
	}
	return p.logged(func() error { return fmt.Errorf("stand-in for %s: unknown command %q", p.Name, p.args) })
}

func (p *program) snapshot() error {
	name := p.after("--name")
	if name == "" {
		name = "on-demand"
	}
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	data := cmp.Or(p.after("--data-dir", "-d"), "/var/lib/rancher/"+p.Name)
	// A folder that a person has chosen must exist.
	folder := p.after("--dir", "--etcd-snapshot-dir")
	if folder == "" {
		folder = data + "/server/db/snapshots"
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
	}
	path := filepath.Join(folder, fmt.Sprintf("%s-%s-%d", name, hostname, time.Now().Unix()))
	fmt.Fprintf(p.stdout, "Snapshot %s saved.\n", filepath.Base(path))
	return os.WriteFile(path, []byte("snapshot of "+p.Version+"\n"), 0o600)
}
