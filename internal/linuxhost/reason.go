package linuxhost

import (
	"fmt"
	"slices"
	"strings"
)

// Reason says, in one word, why an upgrade of a host failed or is refused. It stands in front of the message on the Machine.
type Reason string

// The reasons.
const (
	// NotThisDistribution: the host does not run the distribution that the updater is for.
	NotThisDistribution Reason = "NotThisDistribution"
	// VersionRefused: the change of version is not legal: a downgrade, more than one minor, or a node newer than its API server.
	VersionRefused Reason = "VersionRefused"
	// NoDigest: the manifest of digests does not have a binary that is needed.
	NoDigest Reason = "NoDigest"
	// WrongDigest: a binary is not what the manifest says.
	WrongDigest Reason = "WrongDigest"
	// WrongVersion: a binary has the right digest, and says that it is of another version, or does not run.
	WrongVersion Reason = "WrongVersion"
	// DownloadFailed: a binary could not be had.
	DownloadFailed Reason = "DownloadFailed"
	// ImageMissing: the host lacks a container image, and so does its registry.
	ImageMissing Reason = "ImageMissing"
	// RegistryRefused: a registry of images does not accept the host's login, or the host does not
	// accept its certificate.
	RegistryRefused Reason = "RegistryRefused"
	// RegistryUnreachable: a registry of images does not answer the host, or asks it to come later.
	RegistryUnreachable Reason = "RegistryUnreachable"
	// ImagePullFailed: a container image cannot be pulled, for none of the other reasons.
	ImagePullFailed Reason = "ImagePullFailed"
	// ArchiveUnusable: an archive of images cannot be imported.
	ArchiveUnusable Reason = "ArchiveUnusable"
	// RuntimeUnavailable: the container runtime of the host does not answer.
	RuntimeUnavailable Reason = "RuntimeUnavailable"
	// DiskFull: there is no room for what must be written.
	DiskFull Reason = "DiskFull"
	// FolderReadOnly: no file can be made in the folder of binaries.
	FolderReadOnly Reason = "FolderReadOnly"
	// ToolMissing: the host lacks a program that a step needs.
	ToolMissing Reason = "ToolMissing"
	// ConfigUnreadable: kubeadm's configuration in the cluster is unreadable from the host, so nothing
	// was changed.
	ConfigUnreadable Reason = "ConfigUnreadable"
	// ConfigUnsupported: kubeadm's configuration has something that no step can handle, or two files
	// of the host define one static Pod, so nothing was changed.
	ConfigUnsupported Reason = "ConfigUnsupported"
	// RemovedSetting: the host gives a component a setting that its new version lacks, or lacks
	// something that the version needs, so nothing was changed.
	RemovedSetting Reason = "RemovedSetting"
	// EtcdUnhealthy: a member of etcd is not healthy, so nothing was changed.
	EtcdUnhealthy Reason = "EtcdUnhealthy"
	// EtcdUnknown: etcd could not be asked whether its members are healthy, so nothing was changed.
	EtcdUnknown Reason = "EtcdUnknown"
	// SnapshotFailed: etcd could not be saved, so nothing was changed.
	SnapshotFailed Reason = "SnapshotFailed"
	// FileRefused: a file cannot be written safely: its path is not allowed, leads elsewhere on the
	// host, or its content on the host cannot be parsed. Or it is a patch for kubeadm that is not
	// safe, or that the configuration does not have.
	FileRefused Reason = "FileRefused"
	// WrongHost: the host that answers is not that of the Machine's node.
	WrongHost Reason = "WrongHost"
	// ServiceNotStarted: the service that runs the node does not stay up with its new program and
	// configuration.
	ServiceNotStarted Reason = "ServiceNotStarted"
	// StepFailed: a step's script failed, and says no other reason.
	StepFailed Reason = "StepFailed"
	// StepTimedOut: a step's script was ended because it took too long.
	StepTimedOut Reason = "StepTimedOut"
	// StepHadNoEffect: a step's script ended well, and the step is not done.
	StepHadNoEffect Reason = "StepHadNoEffect"
	// ControlPlaneNotReady: the static pods of a control plane machine are not Ready in time.
	ControlPlaneNotReady Reason = "ControlPlaneNotReady"
	// NodeNotReady: the node is not Ready at the version in time.
	NodeNotReady Reason = "NodeNotReady"
)

// ReasonMark begins the line of a step's output that tells the reason of its failure; the rest of the line stands in the Failure.
const ReasonMark = "windlass-reason "

// Failure is why an upgrade cannot go on until somebody does something.
type Failure struct {
	Reason  Reason
	Step    Name
	Message string
}

// String is the failure as it stands on a Machine.
func (f Failure) String() string {
	if f.Step == "" {
		return fmt.Sprintf("%s: %s", f.Reason, f.Message)
	}
	return fmt.Sprintf("%s: step %s: %s", f.Reason, f.Step, f.Message)
}

// newFailure returns a Failure with a formatted message.
func newFailure(reason Reason, step Name, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Step: step, Message: fmt.Sprintf(format, args...)}
}

// FailureOf tells why a job failed, from what it printed and its exit code.
func FailureOf(job Job) *Failure {
	output := Mask(job.Output)
	for line := range strings.SplitSeq(output, "\n") {
		if told, ok := strings.CutPrefix(line, ReasonMark); ok {
			reason, message, _ := strings.Cut(told, ": ")
			return &Failure{Reason: Reason(reason), Step: job.Step, Message: message}
		}
	}
	last := lastLines(output, 3)
	switch {
	case strings.Contains(output, "No space left on device"):
		return newFailure(DiskFull, job.Step, "a disk of the host is full: %s", last)
	case job.ExitCode == timedOut:
		return newFailure(StepTimedOut, job.Step, "it was ended after %s: %s", job.Ended.Sub(job.Started), last)
	case job.ExitCode == killed:
		return newFailure(StepFailed, job.Step, "it was killed after %s: %s. Fix: see whether the host "+
			"ran out of memory (dmesg)", job.Ended.Sub(job.Started), last)
	}
	return newFailure(StepFailed, job.Step, "exit code %d: %s", job.ExitCode, last)
}

const (
	// timedOut is the exit code of a script that took too long.
	timedOut = 124
	// killed is that of a script of which something killed a process, such as the kernel for want of
	// memory.
	killed = 137
)

// lastLines gives the last lines that say something, as one line.
func lastLines(output string, n int) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "it printed nothing"
	}
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// DropReasons returns the lines without those that tell the reason of a failure to programs. The
// failure's message already has that reason.
func DropReasons(lines []string) []string {
	isReason := func(line string) bool { return strings.HasPrefix(line, ReasonMark) }
	return slices.DeleteFunc(slices.Clone(lines), isReason)
}
