package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// etcd listens on sockets inside the data directory only, so that file permissions say who may read and write the store.
const (
	etcdEndpoint     = "unix://etcd.sock:0"
	etcdPeerEndpoint = "unix://etcd-peer.sock:0"
	// Room for some 30,000 Machines with their infrastructure and bootstrap objects; etcd's default is 2 GiB.
	etcdQuotaBytes   = 8 << 30
	etcdStartTimeout = time.Minute
)

// startEtcd starts a single member in the working directory and waits until it serves. The channel yields an error when
// etcd fails later; stop closes it in order.
func startEtcd(ctx context.Context) (stop func(), failed <-chan error, err error) {
	client, err := url.Parse(etcdEndpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the etcd endpoint: %w", err)
	}
	peer, err := url.Parse(etcdPeerEndpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the etcd peer endpoint: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = "etcd"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.QuotaBackendBytes = etcdQuotaBytes
	// Without it every request is logged as slow.
	cfg.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	cfg.LogLevel = "warn"

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd.Close, etcd.Err(), nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, nil, fmt.Errorf("starting etcd: %w", err)
	case <-ctx.Done():
		etcd.Close()
		return nil, nil, fmt.Errorf("starting etcd: %w", context.Cause(ctx))
	case <-time.After(etcdStartTimeout):
		etcd.Close()
		return nil, nil, errors.New("etcd was not ready in a minute: the disk of the data directory may be too slow")
	}
}
