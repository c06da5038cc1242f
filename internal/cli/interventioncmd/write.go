package interventioncmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windlass-dev/windlass/internal/cli"
	"github.com/windlass-dev/windlass/internal/intervention"
)

// maxDecisions bounds how often a verb is decided because objects change meanwhile. A Machine under
// update changes every few seconds.
const maxDecisions = 10

// writer carries a verb out.
type writer struct {
	printer cli.LinePrinter
	// decide reads and decides.
	decide func(context.Context) (intervention.Plan, error)
	client client.Client
	// written are the objects that this run has written, and next is what was said of what follows.
	written map[string]bool
	next    []string
}

// show prints what would be written.
func (w *writer) show(ctx context.Context) error {
	plan, err := w.decide(ctx)
	if err != nil {
		return refuse(err)
	}
	for _, c := range plan.Changes {
		if err := w.print("Would change " + describe(c)); err != nil {
			return err
		}
	}
	return w.rest(plan, "Afterwards")
}

// write decides and writes until no object has changed meanwhile.
func (w *writer) write(ctx context.Context) error {
	w.written = map[string]bool{}
	for range maxDecisions {
		plan, err := w.decide(ctx)
		if _, ok := errors.AsType[*intervention.RefusalError](err); ok && len(w.written) > 0 {
			// What is left needs nothing any more.
			plan, err = intervention.Plan{}, nil
		}
		if err != nil {
			return w.tellDone(refuse(err))
		}
		for _, sentence := range plan.Next {
			if !slices.Contains(w.next, sentence) {
				w.next = append(w.next, sentence)
			}
		}
		err = w.writeAll(ctx, plan.Changes)
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return w.tellDone(err)
		}
		plan.Done = slices.DeleteFunc(plan.Done, func(line string) bool {
			object, _, _ := strings.Cut(line, ":")
			return w.written[object]
		})
		plan.Next = w.next
		return w.rest(plan, "Next")
	}
	return w.tellDone(fmt.Errorf("objects changed during each of %d attempts. Fix: give the command again",
		maxDecisions))
}

// refuse gives a refusal its exit code.
func refuse(err error) error {
	if refused, ok := errors.AsType[*intervention.RefusalError](err); ok {
		return cli.Refusedf("%w", refused)
	}
	return err
}

// tellDone adds to an error what was written before it.
func (w *writer) tellDone(err error) error {
	if len(w.written) == 0 {
		return err
	}
	return fmt.Errorf("%w; what is printed above was written before", err)
}

func (w *writer) writeAll(ctx context.Context, changes []intervention.Change) error {
	for _, c := range changes {
		if w.written[c.String()] {
			continue
		}
		if err := w.writeOne(ctx, c); err != nil {
			return fmt.Errorf("writing %s: %w", c, err)
		}
		w.written[c.String()] = true
		if err := w.print("Changed " + describe(c)); err != nil {
			return err
		}
	}
	return nil
}

// writeOne writes a change under the resource version that it was decided on.
func (w *writer) writeOne(ctx context.Context, c intervention.Change) error {
	metadata := map[string]any{"resourceVersion": c.ResourceVersion}
	if len(c.Annotations) > 0 {
		metadata["annotations"] = c.Annotations
	}
	content := map[string]any{"metadata": metadata}
	if c.Paused != nil {
		content["spec"] = map[string]any{"paused": *c.Paused}
	}
	patch, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.GVK)
	object.SetNamespace(c.Namespace)
	object.SetName(c.Name)
	return w.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}

// describe says what changes on an object, and why.
func describe(c intervention.Change) string {
	var parts []string
	if c.Paused != nil {
		parts = append(parts, fmt.Sprintf("spec.paused is %t", *c.Paused))
	}
	for _, key := range slices.Sorted(maps.Keys(c.Annotations)) {
		if c.Annotations[key] == nil {
			parts = append(parts, "annotation "+key+" is removed")
		} else {
			parts = append(parts, "annotation "+key+" is set")
		}
	}
	return fmt.Sprintf("%s: %s\n  %s", c, strings.Join(parts, ", "), cli.OneLine(c.Why))
}

// rest prints what is left alone, and what follows.
func (w *writer) rest(plan intervention.Plan, head string) error {
	for _, line := range plan.Done {
		if err := w.print(cli.OneLine(line)); err != nil {
			return err
		}
	}
	for _, line := range plan.Skipped {
		if err := w.print("Left alone: " + cli.OneLine(line)); err != nil {
			return err
		}
	}
	for _, line := range plan.Next {
		if err := w.print(head + ": " + cli.OneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) print(line string) error { return w.printer.Print(line + "\n") }
