package probe

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"

	"github.com/windlass-dev/windlass/internal/clustercheck"
)

func (p *prober) discover(ctx context.Context) (clustercheck.Finding, error) {
	api, err := within(ctx, p.readAPI)
	if err != nil {
		return clustercheck.Finding{}, err
	}
	return clustercheck.CheckAPI(api, p.Version), nil
}

// within returns what read returns, or an error when ctx ends: requests of client-go's discovery have no
// context. What read returns later is lost.
func within[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := read()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("the API server did not answer in time: %w", ctx.Err())
	}
}

func (p *prober) readAPI() (clustercheck.API, error) {
	server, err := p.Remote.Discovery().ServerVersion()
	if err != nil {
		return clustercheck.API{}, fmt.Errorf("asking the API server for its version: %w", err)
	}
	api := clustercheck.API{Version: server.GitVersion}
	groups, _, err := p.Remote.Discovery().ServerGroupsAndResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &failed):
		for group, problem := range failed.Groups {
			api.Broken = append(api.Broken, fmt.Sprintf("%s (%v)", group, problem))
		}
	case err != nil:
		return clustercheck.API{}, fmt.Errorf("discovering the API groups: %w", err)
	}
	api.Groups = len(groups)
	return api, nil
}

func (p *prober) certificates(ctx context.Context) (clustercheck.Finding, error) {
	shown, err := p.Remote.Certificates(ctx)
	if err != nil {
		return clustercheck.Finding{}, err
	}
	found := clustercheck.MachineCertificates(p.Machines)
	for _, c := range shown {
		found = append(found, clustercheck.Certificate{Name: c.Name, NotAfter: c.NotAfter})
	}
	return clustercheck.CheckCertificates(found, p.CertificateDays, p.Now), nil
}

// watchConfigMap holds that a watch reports each change of a ConfigMap.
func (p *prober) watchConfigMap(ctx context.Context) (clustercheck.Finding, error) {
	configMaps := p.Remote.CoreV1().ConfigMaps(p.namespace)
	object := &corev1.ConfigMap{ObjectMeta: p.meta("watched"), Data: map[string]string{"step": "created"}}
	watched, err := configMaps.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", object.Name).String()})
	if err != nil {
		return clustercheck.Finding{}, fmt.Errorf("watching ConfigMaps: %w", err)
	}
	defer watched.Stop()
	for _, step := range []struct {
		want watch.EventType
		do   func() error
	}{
		{watch.Added, func() (err error) { _, err = configMaps.Create(ctx, object, metav1.CreateOptions{}); return err }},
		{watch.Modified, func() (err error) {
			object.Data["step"] = "changed"
			_, err = configMaps.Update(ctx, object, metav1.UpdateOptions{})
			return err
		}},
		{watch.Deleted, func() error { return configMaps.Delete(ctx, object.Name, metav1.DeleteOptions{}) }},
	} {
		if err := step.do(); err != nil {
			return clustercheck.Finding{}, fmt.Errorf("writing a ConfigMap that is watched: %w", err)
		}
		if err := await(ctx, watched, step.want); err != nil {
			return clustercheck.Finding{}, err
		}
	}
	return clustercheck.Pass(clustercheck.ConfigMapWatch, "a watch reported that a ConfigMap was created, changed and deleted"), nil
}

// await returns when a watch reports an event.
func await(ctx context.Context, watched watch.Interface, want watch.EventType) error {
	for {
		select {
		case event, open := <-watched.ResultChan():
			switch {
			case !open:
				return fmt.Errorf("the watch ended before it reported %s", want)
			case event.Type == watch.Error:
				return fmt.Errorf("the watch failed: %w", apierrors.FromObject(event.Object))
			case event.Type == want:
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the watch did not report %s of a ConfigMap in time", want)
		}
	}
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
