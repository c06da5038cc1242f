package app_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/windlass-dev/windlass/api/v1alpha1"
	"github.com/windlass-dev/windlass/internal/app"
)

// TestActivePod has a replica lead that finds the label on a Pod of an earlier leader. It takes the label
// once it serves, and only from Pods of its component; it sets it again where it is lost, and removes it
// at the end. Errors of the API server only delay that.
func TestActivePod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := func(name, component string, active bool) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "windlass-system", Name: name, Labels: map[string]string{"app.kubernetes.io/component": component},
			}}
			if active {
				p.Labels[v1alpha1.ActiveLabel] = "true"
			}
			return p
		}
		failing, refused, serving := true, false, false
		c := fake.NewClientBuilder().WithObjects(
			pod("a", "extension", false), pod("b", "extension", true), pod("c", "another", true),
		).WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if refused {
					return errors.New("a policy denies it")
				}
				if failing {
					failing = false
					return errors.New("the API server is away")
				}
				return c.Patch(ctx, o, p, options...)
			},
		}).Build()
		active := func() (names []string) {
			t.Helper()
			list := &corev1.PodList{}
			if err := c.List(t.Context(), list, client.MatchingLabels{v1alpha1.ActiveLabel: "true"}); err != nil {
				t.Fatal(err)
			}
			for _, p := range list.Items {
				names = append(names, p.Name)
			}
			slices.Sort(names)
			return names
		}
		check := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, active()); diff != "" {
				t.Errorf("%s: Pods with the label (-want +got):\n%s", when, diff)
			}
		}
		var keeper *app.ActivePod
		checkLabelled := func(when string, want bool) {
			t.Helper()
			if got := keeper.Labelled(); got != want {
				t.Errorf("%s: Labelled is %t, want %t", when, got, want)
			}
		}
		keeper = &app.ActivePod{
			Client: c, Pod: types.NamespacedName{Namespace: "windlass-system", Name: "a"},
			Serves: func() error {
				if !serving {
					return errors.New("not yet")
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- keeper.Start(ctx) }()
		time.Sleep(time.Minute) //nolint:forbidigo // synctest's clock.
		check("before it serves", "b", "c")
		checkLabelled("before it serves", false)
		serving = true
		time.Sleep(time.Second) //nolint:forbidigo // synctest's clock.
		check("once it serves", "a", "c")
		checkLabelled("once it serves", true)
		if err := c.Update(t.Context(), pod("a", "extension", false)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // synctest's clock.
		check("after a person removed it", "a", "c")
		refused = true
		if err := c.Update(t.Context(), pod("a", "extension", false)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // synctest's clock.
		checkLabelled("while its patches are refused", false)
		refused = false
		time.Sleep(time.Minute) //nolint:forbidigo // synctest's clock.
		checkLabelled("once they are allowed", true)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		check("at the end", "c")
		checkLabelled("at the end", false)
	})
}

// TestActivePodStopped stops a leader before it lists the Pods with the label, until another one leads.
func TestActivePodStopped(t *testing.T) {
	t.Parallel()
	next := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "windlass-system", Name: "b"}}
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "windlass-system", Name: "a"}}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := false
	c := fake.NewClientBuilder().WithObjects(own, next).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			stopped = true
			next.Labels = map[string]string{v1alpha1.ActiveLabel: "true"}
			next.ResourceVersion = ""
			if err := c.Update(ctx, next); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	keeper := &app.ActivePod{
		Client: c, Pod: client.ObjectKeyFromObject(own),
		Serves: func() error {
			if stopped {
				cancel()
				return errors.New("another replica may lead")
			}
			return nil
		},
	}
	if err := keeper.Start(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(next), next); err != nil {
		t.Fatal(err)
	}
	if next.Labels[v1alpha1.ActiveLabel] != "true" {
		t.Error("the next leader has lost the label")
	}
}

// TestActivePodRefused counts the attempts of a replica that may not write its label.
func TestActivePodRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				attempts++
				return errors.New("forbidden")
			},
		}).Build()
		keeper := &app.ActivePod{Client: c, Serves: func() error { return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := keeper.Start(ctx); err != nil {
			t.Error(err)
		}
		if attempts < 10 || attempts > 20 {
			t.Errorf("%d attempts in a minute", attempts)
		}
	})
}
