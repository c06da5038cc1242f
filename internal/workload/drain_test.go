package workload

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// budgetLister is a client whose lists of budgets are made by a test.
func budgetLister(list func() []policyv1.PodDisruptionBudget) client.Client {
	return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(
			_ context.Context, _ client.WithWatch, l client.ObjectList, _ ...client.ListOption,
		) error {
			budgets, ok := l.(*policyv1.PodDisruptionBudgetList)
			if !ok {
				return fmt.Errorf("a list of %T", l)
			}
			budgets.Items = list()
			return nil
		},
	})
}

// manyBudgets returns budgets that select all pods with 20 labels.
func manyBudgets(count int) []policyv1.PodDisruptionBudget {
	budgets := make([]policyv1.PodDisruptionBudget, count)
	for i := range budgets {
		budgets[i].Name = fmt.Sprintf("b%05d", i)
		budgets[i].Spec.Selector = &metav1.LabelSelector{MatchLabels: twentyLabels()}
	}
	return budgets
}

func twentyLabels() map[string]string {
	labels := map[string]string{}
	for i := range 20 {
		labels[fmt.Sprint("k", i)] = "v"
	}
	return labels
}

// stuck returns pods whose eviction failed; namespaceOf names the namespace of each.
func stuck(count int, namespaceOf func(int) string) drain.EvictionResult {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaceOf(i), Name: fmt.Sprintf("p%03d", i), Labels: twentyLabels(),
		}}
	}
	return drain.EvictionResult{PodsFailedEviction: map[string][]*corev1.Pod{"no": pods}}
}

func same(int) string { return "a" }

// TestBlockersOfManyNamespaces checks that few pods are explained, and that the budgets of one
// namespace are garbage when those of the next one are read.
func TestBlockersOfManyNamespaces(t *testing.T) {
	t.Parallel()
	var lists []weak.Pointer[policyv1.PodDisruptionBudget]
	remote := budgetLister(func() []policyv1.PodDisruptionBudget {
		runtime.GC()
		for i, list := range lists {
			if list.Value() != nil {
				t.Errorf("list %d is in memory while list %d is read", i, len(lists))
			}
		}
		budgets := manyBudgets(2)
		lists = append(lists, weak.Make(&budgets[0]))
		return budgets
	})
	pods := stuck(40, func(i int) string { return fmt.Sprintf("n%02d", 39-i) })
	got := blockers(t.Context(), remote, pods)
	var want []string
	for i := range maxBlockers {
		const line = "* Pod n%02d/p%03d: PodDisruptionBudget b00000, b00001"
		want = append(want, fmt.Sprintf(line, i, 39-i))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(lists) != maxBlockers {
		t.Errorf("%d lists; (-want +got):\n%s", len(lists), diff)
	}
}

// TestBlockersOfManyBudgets has a server that ignores the limit of a list. Its budgets are parsed once,
// however many pods there are.
func TestBlockersOfManyBudgets(t *testing.T) {
	budgets := manyBudgets(16_000)
	remote := budgetLister(func() []policyv1.PodDisruptionBudget { return budgets })
	var lines []string
	count := func(pods int) float64 {
		result := stuck(pods, same)
		return testing.AllocsPerRun(1, func() { lines = blockers(t.Context(), remote, result) })
	}
	one, many := count(1), count(140)
	const names = "b00000, b00001, b00002, b00003, b00004 and 495 more"
	if len(lines) != maxBlockers || lines[4] != "* Pod a/p004: PodDisruptionBudget "+names {
		t.Errorf("%d lines, want %d: %q", len(lines), maxBlockers, lines)
	}
	if most := one * 1.5; many > most || one > 200*maxBudgets {
		t.Errorf("%.0f allocations for one pod and %.0f for 140", one, many)
	}
}

// TestBlockersEnd ends with the context.
func TestBlockersEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lists := 0
	remote := budgetLister(func() []policyv1.PodDisruptionBudget {
		lists++
		cancel()
		return manyBudgets(1)
	})
	pods := stuck(40, func(i int) string { return fmt.Sprint("n", i) })
	if got := blockers(ctx, remote, pods); len(got) > 0 || lists != 1 {
		t.Errorf("after the context %d lists, %q", lists, got)
	}
	if got := listBudgets(ctx, remote, "a"); len(got) > 0 {
		t.Errorf("after the context %d budgets were parsed", len(got))
	}
}

// TestBudgetSelectors holds what a budget without a usable selector selects.
func TestBudgetSelectors(t *testing.T) {
	t.Parallel()
	budgets := manyBudgets(4)
	budgets[0].Spec.Selector = nil
	budgets[1].Spec.Selector = &metav1.LabelSelector{}
	budgets[2].Spec.Selector = &metav1.LabelSelector{
		MatchLabels: map[string]string{"no": strings.Repeat("x", 64)},
	}
	remote := budgetLister(func() []policyv1.PodDisruptionBudget { return budgets })
	want := []string{"* Pod a/p000: PodDisruptionBudget b00001, b00003"}
	if diff := cmp.Diff(want, blockers(t.Context(), remote, stuck(1, same))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
