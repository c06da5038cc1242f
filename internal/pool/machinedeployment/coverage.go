package machinedeployment

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimeclient "sigs.k8s.io/cluster-api/exp/runtime/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/inplace/cover"
	"github.com/windlass-dev/windlass/internal/keyed"
	"github.com/windlass-dev/windlass/internal/pool/objects"
	"github.com/windlass-dev/windlass/internal/text"
)

const (
	// answerLifetime is how long an answer of an extension is used again, unless it took long. A
	// rollout reconciles about once a second, so nine of ten calls are saved. A person who edits an
	// UpdatePolicy or installs an updater waits for this long.
	answerLifetime = 10 * time.Second
	// askingTime bounds how long a run of a kept group waits for answers: it is the longest limit that
	// an extension may announce for a call. Cluster API's builder ends a run after a minute, and the
	// run has to scale the group until then.
	askingTime = 30 * time.Second
	// leastAskingTime is Cluster API's default limit for a call. A question for which less is left is
	// asked in the next run, which begins after nextQuestion.
	leastAskingTime = 10 * time.Second
	nextQuestion    = time.Second
	// maxAnswers bounds the memory for answers. An answer has about 200 bytes, and at most 2 KiB.
	maxAnswers = 4096
	// maxMessage bounds, in bytes, what is repeated of an extension's message.
	maxMessage = 512
)

// answer says whether Machines of a MachineSet can be updated in place. reason says why not, for
// people; it is empty where they can. refused is set instead where the extension keeps the
// Machines.
type answer struct {
	covered bool
	reason  string
	refused *cover.NotCoveredError
	// failed is why there is no answer.
	failed error
}

// get returns the answer, or the error that stands for it.
func (a answer) get() (answer, error) {
	switch {
	case a.failed != nil:
		return answer{}, a.failed
	case a.refused != nil:
		return answer{}, a.refused
	}
	return a, nil
}

// errNotAsked is why a question has no answer so far.
var errNotAsked = errors.New("not asked so far, because other questions took long")

// coverage asks the CanUpdateMachineSet extension. It is safe for concurrent use.
type coverage struct {
	reader  client.Reader
	runtime runtimeclient.Client
	now     func() time.Time
	// answers are by question; see questionKey. Those that failed count for groups whose Machines
	// are kept.
	answers keyed.Memory[string, answer]
}

// lifetime returns how long the answer of a call that took so long is used again, or its failure.
// A question that hangs takes at most a quarter of the time of a worker. Answers live as long, so
// that each of up to four slow questions has its turn before the first one is asked again.
func lifetime(took time.Duration) time.Duration { return max(answerLifetime, 3*took) }

func newCoverage(
	reader client.Reader, extensions runtimeclient.Client, now func() time.Time,
) *coverage {
	return &coverage{
		reader: reader, runtime: extensions, now: now,
		answers: keyed.Memory[string, answer]{Most: maxAnswers},
	}
}

// query is what an extension is asked about two MachineSets.
type query struct {
	// key is that of questionKey.
	key, handler string
	from         *clusterv1.MachineSet
	request      *runtimehooksv1.CanUpdateMachineSetRequest
}

// ask returns whether the Machines of a MachineSet can be updated in place to the template of
// another one, which need not exist yet. It is for groups whose Machines may be replaced: nothing
// can be updated from a template that is gone, so that is an answer. It waits for any time.
//
// It returns an error where nobody can tell: a template cannot be read, or the extension failed.
// The error is a *cover.NotCoveredError where the extension certainly does not cover the change and
// keeps the Machines, whatever the caller's policy is.
func (c *coverage) ask(ctx context.Context, from, to *clusterv1.MachineSet) (answer, error) {
	q, refusal, err := c.prepare(ctx, from, to)
	if apierrors.IsNotFound(err) && c.isGone(ctx, from) {
		return answer{reason: err.Error()}, nil
	}
	if err != nil || refusal != "" {
		return answer{reason: refusal}, err
	}
	if known, ok := c.answers.Get(q.key, c.now()); ok && known.failed == nil {
		return known.get()
	}
	return c.callNow(ctx, q).get()
}

// askKept is ask for a group whose Machines are kept. A template that is gone is an error. It waits
// for at most left, and returns errNotAsked if that is less than leastAskingTime. A call that
// failed is not repeated during its lifetime.
func (c *coverage) askKept(
	ctx context.Context, from, to *clusterv1.MachineSet, left time.Duration,
) (answer, error) {
	q, refusal, err := c.prepare(ctx, from, to)
	if err != nil || refusal != "" {
		return answer{reason: refusal}, err
	}
	if known, ok := c.answers.Get(q.key, c.now()); ok {
		return known.get()
	}
	if left < leastAskingTime {
		return answer{}, errNotAsked
	}
	limited, cancel := context.WithTimeoutCause(ctx, left,
		fmt.Errorf("no answer within %s. Fix: see the log of the extension", left.Round(time.Second)))
	defer cancel()
	return c.callNow(limited, q).get()
}

// prepare returns what an extension is asked about two MachineSets. refusal says why nothing needs
// to be asked: no update leads from one to the other.
func (c *coverage) prepare(
	ctx context.Context, from, to *clusterv1.MachineSet,
) (q query, refusal string, err error) {
	request, refusal, err := c.question(ctx, from, to)
	if err != nil || refusal != "" {
		return query{}, refusal, err
	}
	handlers, err := c.runtime.GetAllExtensions(ctx, runtimehooksv1.CanUpdateMachineSet, from)
	switch {
	case err != nil:
		return query{}, "", fmt.Errorf("finding the extensions for CanUpdateMachineSet: %w", err)
	case len(handlers) == 0:
		return query{}, "no extension answers CanUpdateMachineSet", nil
	case len(handlers) > 1:
		return query{}, "", fmt.Errorf("several extensions answer CanUpdateMachineSet (%s). Fix: "+
			"register one", strings.Join(handlers, ", "))
	}
	key, err := questionKey(handlers[0], request)
	return query{key: key, handler: handlers[0], from: from, request: request}, "", err
}

// callNow asks the extension, and remembers the answer or the failure for its lifetime.
func (c *coverage) callNow(ctx context.Context, q query) answer {
	began := c.now()
	got, err := c.call(ctx, q)
	if err != nil {
		got = answer{failed: err}
	}
	c.answers.Put(q.key, got, c.now(), lifetime(c.now().Sub(began)))
	return got
}

// call asks the extension and compares what it covers with what differs.
func (c *coverage) call(ctx context.Context, q query) (answer, error) {
	response := &runtimehooksv1.CanUpdateMachineSetResponse{}
	hook := runtimehooksv1.CanUpdateMachineSet
	err := c.runtime.CallExtension(ctx, hook, q.from, q.handler, q.request, response)
	if err != nil {
		if refused := refusalOf(q.handler, response); refused != nil {
			return answer{refused: refused}, nil //nolint:nilerr // The refusal is the answer.
		}
		return answer{}, fmt.Errorf("calling the extension %s: %w", q.handler, err)
	}
	got, err := compare(q.handler, q.request, response)
	if err != nil {
		return answer{}, fmt.Errorf("reading the answer of extension %s: %w", q.handler, err)
	}
	return got, nil
}

// refusalOf returns the error that the message of a Failure stands for; nil if the response is no
// Failure, or if its message stands for another error.
func refusalOf(
	handler string, response *runtimehooksv1.CanUpdateMachineSetResponse,
) *cover.NotCoveredError {
	if response.Status != runtimehooksv1.ResponseStatusFailure {
		return nil
	}
	refused := cover.DecodeRefusal(response.Message)
	if refused == nil {
		return nil
	}
	refused.Message = text.Bound(refused.Message, maxConditionBytes)
	if refused.Message == "" {
		refused.Message = fmt.Sprintf("extension %s gives no reason. Fix: see its log", handler)
	}
	return refused
}

// question returns the request about two MachineSets. refusal says why no extension can cover the
// difference, whatever it answers; it is empty otherwise.
func (c *coverage) question(
	ctx context.Context, from, to *clusterv1.MachineSet,
) (request *runtimehooksv1.CanUpdateMachineSetRequest, refusal string, err error) {
	request = &runtimehooksv1.CanUpdateMachineSetRequest{}
	if err := c.describe(ctx, from, &request.Current); err != nil {
		return nil, "", err
	}
	if err := c.describe(ctx, to, &request.Desired); err != nil {
		return nil, "", err
	}
	hadConfig := len(request.Current.BootstrapConfigTemplate.Raw) > 0
	hasConfig := len(request.Desired.BootstrapConfigTemplate.Raw) > 0
	switch {
	case hadConfig && !hasConfig:
		return request, "the desired template has no bootstrap config, and the current one has", nil
	case !hadConfig && hasConfig:
		return request, "the desired template has a bootstrap config, and the current one has none", nil
	}
	return request, "", nil
}

// isGone reports whether a template of a MachineSet does not exist.
func (c *coverage) isGone(ctx context.Context, set *clusterv1.MachineSet) bool {
	err := c.describe(ctx, set, &runtimehooksv1.CanUpdateMachineSetRequestObjects{})
	return apierrors.IsNotFound(err)
}

// describe fills in the objects of one side of a request.
func (c *coverage) describe(
	ctx context.Context, set *clusterv1.MachineSet,
	side *runtimehooksv1.CanUpdateMachineSetRequestObjects,
) error {
	side.MachineSet = clusterv1.MachineSet{
		TypeMeta: metav1.TypeMeta{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet"},
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name, Namespace: set.Namespace, Labels: set.Labels, Annotations: set.Annotations,
		},
		Spec: *set.Spec.DeepCopy(),
	}
	spec := &set.Spec.Template.Spec
	infrastructure, err := c.template(ctx, set, spec.InfrastructureRef)
	if err != nil {
		return err
	}
	side.InfrastructureMachineTemplate = infrastructure
	if spec.Bootstrap.ConfigRef.IsDefined() {
		side.BootstrapConfigTemplate, err = c.template(ctx, set, spec.Bootstrap.ConfigRef)
	}
	return err
}

// template reads a template, and returns what extensions are shown of it.
func (c *coverage) template(
	ctx context.Context, set *clusterv1.MachineSet, ref clusterv1.ContractVersionedObjectReference,
) (runtime.RawExtension, error) {
	_, live, err := objects.FetchTemplate(ctx, c.reader, ref, set.Namespace)
	if err != nil {
		return runtime.RawExtension{}, fmt.Errorf("getting %s %q of MachineSet %s: %w",
			ref.Kind, ref.Name, set.Name, err)
	}
	shown := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "spec": live.Object["spec"],
	}}
	shown.SetName(live.GetName())
	shown.SetNamespace(live.GetNamespace())
	shown.SetLabels(live.GetLabels())
	shown.SetAnnotations(live.GetAnnotations())
	raw, err := json.Marshal(shown)
	if err != nil {
		return runtime.RawExtension{}, fmt.Errorf("encoding %s %q: %w", ref.Kind, ref.Name, err)
	}
	return runtime.RawExtension{Raw: raw, Object: shown}, nil
}

// questionKey identifies a question. It leaves out what changes during a rollout and what no answer
// may depend on: replicas, annotations, and the name of a MachineSet that does not exist yet.
func questionKey(
	handler string, request *runtimehooksv1.CanUpdateMachineSetRequest,
) (string, error) {
	asked := request.DeepCopy()
	for _, set := range []*clusterv1.MachineSet{&asked.Current.MachineSet, &asked.Desired.MachineSet} {
		set.Annotations, set.Spec.Replicas, set.Spec.Selector = nil, nil, metav1.LabelSelector{}
		delete(set.Labels, clusterv1.MachineDeploymentUniqueLabel)
		delete(set.Spec.Template.Labels, clusterv1.MachineDeploymentUniqueLabel)
	}
	asked.Desired.MachineSet.Name = ""
	encoded, err := json.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("encoding a CanUpdateMachineSet request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(handler+"\n"), encoded...))
	return string(sum[:]), nil
}

// compare returns whether the patches of a response make the current objects of a request equal to
// the desired ones.
func compare(
	handler string, request *runtimehooksv1.CanUpdateMachineSetRequest,
	response *runtimehooksv1.CanUpdateMachineSetResponse,
) (answer, error) {
	current, err := objectsOf(&request.Current)
	if err != nil {
		return answer{}, err
	}
	desired, err := objectsOf(&request.Desired)
	if err != nil {
		return answer{}, err
	}
	difference, err := cover.New(cover.MachineSet, current, desired, nil)
	if err != nil {
		return answer{}, fmt.Errorf("comparing the MachineSets: %w", err)
	}
	covered, err := difference.Apply(cover.Updater{Name: handler}, cover.Patches{
		Machine:        patchOf(response.MachineSetPatch),
		Infrastructure: patchOf(response.InfrastructureMachineTemplatePatch),
		Bootstrap:      patchOf(response.BootstrapConfigTemplatePatch),
	})
	if wrong, ok := errors.AsType[*cover.UpdaterError](err); ok && wrong.Pointer.Path != "" {
		// The patch applies, but leads elsewhere: it covers nothing.
		return answer{reason: wrong.Error()}, nil
	}
	if err != nil {
		return answer{}, fmt.Errorf("applying the patches: %w", err)
	}
	result := covered.Result()
	if len(result.Uncovered) == 0 {
		return answer{covered: true}, nil
	}
	reason := "nothing covers " + result.DescribeUncovered("MachineSet")
	if response.Message != "" {
		reason += "; the extension reports: " + text.Bound(response.Message, maxMessage)
	}
	return answer{reason: reason}, nil
}

func patchOf(p runtimehooksv1.Patch) cover.Patch {
	return cover.Patch{Type: cover.PatchType(p.PatchType), Data: p.Patch}
}

func objectsOf(side *runtimehooksv1.CanUpdateMachineSetRequestObjects) (cover.Objects, error) {
	set, err := json.Marshal(&side.MachineSet)
	if err != nil {
		return cover.Objects{}, fmt.Errorf("encoding MachineSet %s: %w", side.MachineSet.Name, err)
	}
	return cover.Objects{
		Machine: set, Infrastructure: side.InfrastructureMachineTemplate.Raw,
		Bootstrap: side.BootstrapConfigTemplate.Raw,
	}, nil
}
