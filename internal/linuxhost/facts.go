package linuxhost

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-dev/windlass/pkg/version"
)

// Facts are what is known about a host: what FactsScript printed there.
type Facts struct {
	// Now is the host's clock. Times of jobs are by the same clock.
	Now time.Time
	// Boot is when the host was started, by the same clock; zero if unknown.
	Boot time.Time
	// Arch is the architecture as Go, and names of downloads, spell it.
	Arch string
	// ControlPlane says that the host runs a control plane; Member that it has a member of etcd.
	ControlPlane, Member bool
	// Installed is the version of the binary that makes the node: the kubelet's, or that of rke2 or k3s; zero where there is none.
	Installed version.Version
	// Running is the version of the process that makes the node, where that is known to be another program than the installed one; otherwise zero.
	Running version.Version
	// APIServer is the version of the API server that the kubelet talks to; zero where it did not tell, and once an upgrade has begun.
	APIServer version.Version
	// Oldest is that of Upgrade. No script prints it.
	Oldest ControlPlaneNode
	// Cluster is the version in the ConfigMap kubeadm-config; zero for workers, where it cannot be read, and where Verb is set.
	// ClusterProblem says why it cannot be read; empty if unknown.
	Cluster        version.Version
	ClusterProblem string
	// CertificatesDir is the folder of certificates in the same ConfigMap; empty where Cluster is
	// zero, and for /etc/kubernetes/pki and links between the two.
	CertificatesDir string
	// OwnAPIServer is the version in the manifest of the host's API server; zero if unknown.
	OwnAPIServer version.Version
	// LocalServer is the host's own API server, as https://ADDRESS:PORT; empty where there is none, or it is unknown.
	LocalServer string
	// Patches are the files in the goal's PatchesFolder that may be patches for kubeadm.
	Patches []string
	// Patched are the files that the goal's patches for kubeadm change, by target. Those that the host
	// lacks are not in it.
	Patched map[string]string
	// External are the certificates of the CAs whose keys the host lacks, and those that they sign,
	// by paths such as etcd/ca.
	External []HostFile
	// Scheduler is the manifest of the host's scheduler; empty if it names no proxy.
	Scheduler string
	// StaticPods are the files that the kubelet reads as static Pods before kubeadm has begun, in
	// their order.
	StaticPods []StaticPod
	// KubeletFlags is the content of kubeadm's file with the kubelet's arguments.
	KubeletFlags string
	// Config is what the host gives to the components of Kubernetes.
	Config Configuration
	// Rancher is what RKE2 or K3s gives to them.
	Rancher RancherConfig
	// Service is the unit that runs the node.
	Service string
	// Writable says that files can be made in the folder of binaries; Why what keeps them from being made.
	Writable bool
	Why      string
	// FreeKB and FreeStateKB are what is left for binaries, and for what Windlass keeps, in KiB. NeedKB is the size of the installed binaries.
	// KeepKB is the size of the copy of the old program among what Windlass keeps; 0 if it takes no room there.
	FreeKB, FreeStateKB, NeedKB, KeepKB int64
	// Kubectl says that a control plane host has a kubectl to read the cluster's version with.
	Kubectl bool
	// EtcdClient says that a host with a member of etcd has a program to save it with: etcdctl, or
	// crictl, by which that of the member's container is run.
	EtcdClient bool
	// EtcdProblem says which member of etcd is not healthy, before kubeadm has begun; empty if all
	// are.
	EtcdProblem string
	// EtcdPeerProblem says why a restart of the host's member could cost the quorum, while the kubelet
	// is replaced and not restarted: which other member is not healthy. It is empty if all are, and if
	// the host's own member does not answer.
	EtcdPeerProblem string
	// SnapshotKB is the room that a snapshot of etcd needs, both in EtcdData, the folder of the
	// member's data, and among what Windlass keeps; 0 if unknown. FreeEtcdKB is what is left in
	// EtcdData. Both are in KiB.
	SnapshotKB, FreeEtcdKB int64
	EtcdData               string
	// CopyKB is the room that kubeadm needs for its copy of etcd's data, and for the images that it
	// pulls before if they are on the same disk, and FreeCopyKB what is left there, in KiB; CopyKB is
	// 0 if unknown. CopyBesideState says that the copy and what Windlass keeps are on the same disk.
	CopyKB, FreeCopyKB int64
	CopyBesideState    bool
	// SpareStateKB and SpareImagesKB are what is left for what Windlass keeps, and in ImagesFolder,
	// where the container runtime keeps images, beside what the kubelet wants to be free on the disk,
	// in KiB. ImagesFolder is empty if unknown. ImagesBesideState says that both are on one disk.
	SpareStateKB, SpareImagesKB int64
	ImagesFolder                string
	ImagesBesideState           bool
	// HostName is what the system calls itself; empty if unknown. Only hosts of kubeadm tell it.
	HostName string
	// Archives are the names of the archives of images that RKE2 or K3s import.
	Archives string
	// Cleaned says that the operation was seen to be done, and left no binaries behind.
	Cleaned bool
	// Begun says that kubeadm has begun an upgrade, to whatever version, that is not done. Verb is the
	// verb of kubeadm upgrade if that is the goal's version; otherwise empty.
	Begun bool
	Verb  string
	// Cut says that a run of kubeadm was cut short, and that the files which it changes are not put
	// back yet.
	Cut bool
	// Kept is the version of the program that the node was started with before the upgrade, which is
	// kept with its configuration; zero if nothing is kept. NotStarted says that the service did not
	// stay up with the new ones and was stopped, or that its put-back has begun.
	Kept       version.Version
	NotStarted bool
	// Drained says that the operation has drained the node; Cordoned that the node was
	// schedulable when an upgrade to a version of the goal's minor, or a newer one, cordoned it.
	Drained, Cordoned bool
	Job               Job
}

// ControlPlaneNode is a Node with the role control-plane, and the version of its kubelet. Its API
// server is at least as new: every upgrade replaces the API server first.
type ControlPlaneNode struct {
	Name    string
	Kubelet version.Version
}

// Job is the last step that was started on a host. At most one runs on a host, whoever started it.
type Job struct {
	Operation string
	Step      Name
	Attempt   string
	// Manifest is that of the goal when the job was started: see Goal.Manifest.
	Manifest string
	State    JobState
	// ExitCode counts where the job ended.
	ExitCode       int
	Started, Ended time.Time
	// Output is the last of what the job printed, without secrets.
	Output string
}

// JobState is what becomes of a job.
type JobState string

// The states of a job.
const (
	// NoJob: none was started, or there is no trace of it.
	NoJob      JobState = ""
	JobRunning JobState = "running"
	JobEnded   JobState = "ended"
	// JobVanished: it was started, does not run, and left no exit code: it was killed, or the host went down.
	JobVanished JobState = "vanished"
)

// FactsScript prints the facts of a host, for ParseFacts. It changes nothing. Where the folder of binaries looks read-only, it tries to create a file there
// and removes it.
func FactsScript(g Goal) string {
	if g.Distribution == Kubeadm {
		return g.script("facts-kubeadm", value{"PATCHED", g.filesToPatch()},
			value{"PATCHES_FOLDER", g.patchesToFind()}, value{"SNAPSHOTS", snapshotsFolder})
	}
	return g.script("facts-rancher")
}

// ParseFacts parses what FactsScript printed. Lines that are not known are left alone; numbers and times that cannot be read are errors, and so
// is output that is not whole.
func ParseFacts(output string) (Facts, error) {
	values, err := parseValues(output)
	if err != nil {
		return Facts{}, err
	}
	r := factReader{values: values}
	f := Facts{
		Now: r.time("time"), Boot: r.time("boot"), Arch: goArch(values["arch"]),
		ControlPlane: r.yes("control-plane"), Member: r.yes("member"),
		Installed: r.version("installed"), Running: r.version("running"), APIServer: r.version("api-server"), Cluster: r.version("cluster"),
		OwnAPIServer: r.version("api-server-tag"), LocalServer: r.server("local-server"),
		CertificatesDir: values["certificates-dir"], External: filesIn(values, "external-"),
		Scheduler: values["scheduler"], KubeletFlags: values["kubelet-flags"],
		Service: values["service"], Writable: r.yes("writable"), Why: values["writable-why"],
		FreeKB: r.number("free-kb"), FreeStateKB: r.number("free-state-kb"), NeedKB: r.number("need-kb"), KeepKB: r.number("keep-kb"),
		Begun: r.yes("begun"), Verb: values["verb"],
		Kubectl: r.yes("kubectl"), EtcdClient: r.yes("etcd-client"),
		ClusterProblem: values["cluster-problem"], EtcdPeerProblem: values["etcd-peer-problem"],
		EtcdProblem: values["etcd-problem"], EtcdData: values["etcd-data"],
		SnapshotKB: r.number("snapshot-kb"), FreeEtcdKB: r.number("free-etcd-kb"),
		CopyKB: r.number("copy-kb"), FreeCopyKB: r.number("free-copy-kb"),
		CopyBesideState: r.yes("copy-beside-state"),
		SpareStateKB:    r.number("spare-state-kb"), SpareImagesKB: r.number("spare-images-kb"),
		ImagesFolder: values["images-folder"], ImagesBesideState: r.yes("images-beside-state"),
		Archives: values["archives"], HostName: values["host-name"],
		Kept: r.version("kept"), NotStarted: r.yes("not-started"),
		Cleaned: r.yes("cleaned"), Drained: r.yes("drained"), Cordoned: r.yes("cordoned"),
	}
	f.StaticPods = parseStaticPods(values["static-pods"])
	for key, value := range values {
		if target, is := strings.CutPrefix(key, "patched-"); is {
			if f.Patched == nil {
				f.Patched = map[string]string{}
			}
			f.Patched[target] = value
		}
	}
	for line := range strings.SplitSeq(values["patches"], "\n") {
		if line != "" {
			f.Patches = append(f.Patches, line)
		}
	}
	f.Config = Configuration{
		Command: values["kubelet-command"], Units: values["kubelet-units"],
		Defaults: values["kubelet-defaults"], Sysconfig: values["kubelet-sysconfig"],
		Environment: filesIn(values, "kubelet-environment-"),
		KubeletPath: values["kubelet-config-path"],
		Kubelet:     values["kubelet-config"], KubeletMap: mapKey(values["kubelet-map"], "kubelet"), Cluster: values["cluster-configuration"],
		CgroupV1: r.yes("cgroup-v1"), Kernel: values["kernel"], Containerd: values["containerd"],
	}
	f.Config.Cut = cutDocuments(values)
	f.Rancher = parseRancherConfig(values)
	f.Job = r.job()
	f.Cut = r.yes("cut") && f.Job.State != JobRunning
	return f, r.err
}

// decodeValue decodes what encode in lib-fact.sh printed: a value is plain, behind "=", or in base64.
func decodeValue(encoded string) (string, error) {
	if plain, is := strings.CutPrefix(encoded, "="); is {
		return plain, nil
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return strings.TrimRight(string(raw), "\n"), err
}

// parseValues parses lines of a key and an encoded value, the last of which is end.
func parseValues(output string) (map[string]string, error) {
	values := map[string]string{}
	for line := range strings.Lines(output) {
		key, encoded, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		decoded, err := decodeValue(encoded)
		if err != nil {
			return nil, fmt.Errorf("the host's answer has a line %q that cannot be read: is something printed at login?", key)
		}
		values[key] = decoded
	}
	if values["end"] != "yes" {
		return nil, fmt.Errorf("the host's answer is not whole: %d facts, without the last one", len(values))
	}
	return values, nil
}

// factReader reads typed values, and keeps the first error.
type factReader struct {
	values map[string]string
	err    error
}

func (r *factReader) yes(key string) bool { return r.values[key] == "yes" }

func (r *factReader) number(key string) int64 {
	text := r.values[key]
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("the host's answer: %s is %q, which is no number", key, text)
	}
	return n
}

func (r *factReader) time(key string) time.Time {
	if seconds := r.number(key); seconds > 0 {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Time{}
}

// version finds a version in a text such as "Kubernetes v1.36.3" or "k3s version v1.36.3+k3s1 (0123)". What holds none is the zero version: a
// binary that does not run tells none.
func (r *factReader) version(key string) version.Version {
	for word := range strings.FieldsSeq(r.values[key]) {
		if parsed, err := version.Parse(strings.Trim(word, `",`)); err == nil && strings.HasPrefix(strings.Trim(word, `"`), "v") {
			return parsed
		}
	}
	return version.Version{}
}

// serverSyntax has an address of IPv4, or of IPv6 in brackets, and a port.
var serverSyntax = regexp.MustCompile(`^https://([0-9.]{7,15}|\[[0-9a-fA-F:.]{2,45}\]):[0-9]{1,5}$`)

// server is https://ADDRESS:PORT.
func (r *factReader) server(key string) string {
	text := r.values[key]
	if text != "" && !serverSyntax.MatchString(text) && r.err == nil {
		r.err = fmt.Errorf("the host's answer: %s is %q, not https://ADDRESS:PORT; compare --advertise-address and --secure-port in the manifest of its API server", key, text)
	}
	return text
}

func (r *factReader) job() Job {
	words := strings.Fields(r.values["job"])
	if len(words) != 4 {
		return Job{}
	}
	return Job{
		Operation: words[0], Step: Name(words[1]), Attempt: words[2], Manifest: words[3],
		State: JobState(r.values["job-state"]), ExitCode: int(r.number("job-exit")),
		Started: r.time("job-started"), Ended: r.time("job-ended"), Output: Mask(r.values["job-output"]),
	}
}

// goArch spells what uname prints as Go does.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return machine
	}
}
