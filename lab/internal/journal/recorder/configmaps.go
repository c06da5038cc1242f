package recorder

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Namespace has the objects of a Recorder in its cluster.
	Namespace = "windlass-journal"

	namePrefix = "write-"
	valueKey   = "value"
)

func objectName(number int) string { return fmt.Sprintf("%s%d", namePrefix, number) }

// configMaps implements API: each write is a ConfigMap.
type configMaps struct{ client client.Client }

// NewAPI returns a cluster whose objects are ConfigMaps. It creates their namespace.
func NewAPI(ctx context.Context, config *rest.Config) (API, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit of the client's own
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating namespace %s: %w", Namespace, err)
	}
	return configMaps{c}, nil
}

func (m configMaps) Write(ctx context.Context, number int, value string) (int64, error) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: objectName(number)},
		Data:       map[string]string{valueKey: value},
	}
	if err := m.client.Create(ctx, object); err != nil {
		return 0, err
	}
	revision, err := strconv.ParseInt(object.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the resource version: %w", err)
	}
	return revision, nil
}

func (m configMaps) Read(ctx context.Context, number int) (string, error) {
	object := &corev1.ConfigMap{}
	err := m.client.Get(
		ctx, client.ObjectKey{Namespace: Namespace, Name: objectName(number)}, object,
	)
	if apierrors.IsNotFound(err) {
		return "", ErrMissing
	}
	return object.Data[valueKey], err
}
