package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/windlass-dev/windlass/lab/internal/journal"
)

// Shell runs a bash script as root on the machine of an etcd member, and returns its output. A
// script that fails is an error.
type Shell func(ctx context.Context, script string) (output string, err error)

// memberScript asks the member on its own machine. The linearizable read waits until the member has
// applied all that the cluster had committed. The serializable one returns what this member has,
// and asks nobody else. Each answer is one line.
const memberScript = `set -euo pipefail
export ETCDCTL_ENDPOINTS=https://127.0.0.1:2379 ETCDCTL_WRITE_OUT=json
export ETCDCTL_CACERT=/etc/kubernetes/pki/etcd/ca.crt
export ETCDCTL_CERT=/etc/kubernetes/pki/etcd/server.crt ETCDCTL_KEY=/etc/kubernetes/pki/etcd/server.key
etcdctl get --consistency=l --prefix --keys-only --limit=1 /registry/ >/dev/null
etcdctl endpoint status
etcdctl member list
etcdctl get --consistency=s --prefix ` + keyPrefix

const keyPrefix = "/registry/configmaps/" + Namespace + "/"

// AskMember asks the member of etcd on a machine, and nobody else.
func AskMember(ctx context.Context, machine string, shell Shell) journal.Member {
	output, err := shell(ctx, memberScript)
	m := journal.Member{}
	if err == nil {
		m, err = parseMember(output)
	}
	m.Machine = machine
	if err != nil {
		m.Problem = err.Error()
	}
	return m
}

// The answers of etcdctl, as far as they are read.
type (
	endpointStatus []struct {
		Status struct {
			Version string `json:"version"`
		}
	}
	memberList struct {
		Members []struct {
			Name string `json:"name"`
		} `json:"members"`
	}
	keyRange struct {
		KVs []struct {
			Key      []byte `json:"key"`
			Value    []byte `json:"value"`
			Revision int64  `json:"mod_revision"`
		} `json:"kvs"`
	}
)

// parseMember reads the lines that memberScript prints.
func parseMember(output string) (journal.Member, error) {
	var status endpointStatus
	var list memberList
	var keys keyRange
	lines := strings.Split(strings.TrimSpace(output), "\n")
	answers := []any{&status, &list, &keys}
	if len(lines) != len(answers) {
		return journal.Member{}, fmt.Errorf(
			"etcdctl printed %d lines, want %d: %.200s", len(lines), len(answers), output,
		)
	}
	for i, answer := range answers {
		if err := json.Unmarshal([]byte(lines[i]), answer); err != nil {
			return journal.Member{}, fmt.Errorf(
				"reading an answer of etcdctl: %w: %.200s", err, lines[i],
			)
		}
	}
	if len(status) != 1 {
		return journal.Member{}, fmt.Errorf("etcdctl returned %d statuses, want 1", len(status))
	}
	m := journal.Member{Version: status[0].Status.Version, Stored: map[int]journal.Stored{}}
	for _, other := range list.Members {
		m.Known = append(m.Known, other.Name)
	}
	slices.Sort(m.Known)
	decoder, err := newDecoder()
	if err != nil {
		return journal.Member{}, err
	}
	for _, kv := range keys.KVs {
		number, isWrite := strings.CutPrefix(path.Base(string(kv.Key)), namePrefix)
		n, err := strconv.Atoi(number)
		if !isWrite || err != nil {
			continue // such as kube-root-ca.crt
		}
		// Compare reports a value that cannot be decoded: it differs from what was written.
		object := &corev1.ConfigMap{}
		_, _, _ = decoder.Decode(kv.Value, nil, object)
		m.Stored[n] = journal.Stored{Revision: kv.Revision, Value: object.Data[valueKey]}
	}
	return m, nil
}

// newDecoder decodes objects as the API server stores them.
func newDecoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	return serializer.NewCodecFactory(scheme).UniversalDeserializer(), nil
}
