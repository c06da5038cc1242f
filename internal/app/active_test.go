package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
			Now: time.Now,
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
		keeper := &app.ActivePod{Client: c, Now: time.Now, Serves: func() error { return nil }}
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

// TestActivePodReady has two replicas, of which a leads. a is not Ready once its Pod has had no label
// for more than 15 s. b follows, and stays Ready.
func TestActivePodReady(t *testing.T) {
	t.Parallel()
	const patchA, patchB, getA, list = "patch a", "patch b", "get a", "list "
	for _, test := range []struct {
		name string
		// refused are requests that the API server refuses.
		refused []string
		// later means that it refuses them only once a has labelled its Pod, and removed that a person
		// then removes the label.
		later, removed bool
		want           string
	}{
		{name: "nothing refused"},
		{name: "patches refused", refused: []string{patchA, patchB}, want: patchA},
		{name: "reads refused", refused: []string{getA}, want: getA},
		{name: "label removed", refused: []string{patchA}, later: true, removed: true, want: patchA},
		{name: "reads refused later", refused: []string{getA}, later: true},
		{name: "lists refused", refused: []string{list}},
		{name: "another Pod keeps its label", refused: []string{patchB}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &refusingServer{}
				c := server.client()
				keeper := func(name string) *app.ActivePod {
					return &app.ActivePod{
						Client: c, Pod: types.NamespacedName{Namespace: "windlass-system", Name: name},
						Serves: func() error { return nil }, Now: time.Now,
					}
				}
				a, b := keeper("a"), keeper("b")
				if !test.later {
					server.refuse(test.refused...)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- a.Start(ctx) }()
				synctest.Wait()
				server.refuse(test.refused...)
				if test.removed {
					if err := c.Update(ctx, podOfExtension("a")); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(14 * time.Second)
				checkReady(t, "a after 14 s", a, "")
				<-time.After(12 * time.Second)
				checkReady(t, "a after 26 s", a, test.want)
				checkReady(t, "b after 26 s", b, "")
				server.refuse()
				<-time.After(10 * time.Second)
				checkReady(t, "a once all is allowed", a, "")
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// refusingServer is an API server that refuses some requests, each as a verb and an object's name.
type refusingServer struct {
	mu      sync.Mutex
	refused []string
}

func (s *refusingServer) refuse(requests ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = requests
}

func (s *refusingServer) check(verb, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request := verb + " " + name; slices.Contains(s.refused, request) {
		return fmt.Errorf("you may not %s", request)
	}
	return nil
}

// client returns a client for a server with the Pods a and b, of which b has the label.
func (s *refusingServer) client() client.Client {
	b := podOfExtension("b")
	b.Labels[v1alpha1.ActiveLabel] = "true"
	refusing := interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			return errors.Join(s.check("get", key.Name), c.Get(ctx, key, o, options...))
		},
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			return errors.Join(s.check("list", ""), c.List(ctx, list, options...))
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption,
		) error {
			if err := s.check("patch", o.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, options...)
		},
	}
	pods := []client.Object{podOfExtension("a"), b}
	return fake.NewClientBuilder().WithObjects(pods...).WithInterceptorFuncs(refusing).Build()
}

func podOfExtension(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "windlass-system", Name: name,
		Labels: map[string]string{"app.kubernetes.io/component": "extension"},
	}}
}

// checkReady checks whether a replica is Ready, and that its error contains want. An empty want means
// Ready.
func checkReady(t *testing.T, what string, keeper *app.ActivePod, want string) {
	t.Helper()
	err := keeper.Ready(nil)
	if want == "" {
		if err != nil {
			t.Errorf("%s is not Ready: %v", what, err)
		}
		return
	}
	for _, part := range []string{keeper.Pod.String(), v1alpha1.ActiveLabel, want, "Fix: "} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want an error with %q", what, err, part)
		}
	}
}
