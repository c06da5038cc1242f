package shares

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSharesOfTenants has one tenant that wants everything and gives nothing back.
func TestSharesOfTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(2, 1)
		hold := func(tenant string, patience time.Duration) (func(), error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return s.Acquire(ctx, tenant)
		}
		greedy, err := hold("greedy", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		for range 100 {
			waiting.Go(func() {
				if _, err := hold("greedy", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a tenant has two shares, %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		for range 10 {
			release, err := hold("modest", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("another tenant waited %s", waited)
		}
		third, err := hold("modest", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hold("late", time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("three shares of two are in use, %v", err)
		}
		if _, ok := s.TryAcquire("late"); ok {
			t.Error("three shares of two are in use")
		}
		third()
		fourth, ok := s.TryAcquire("late")
		if !ok {
			t.Fatal("a free share is refused")
		}
		if _, ok := s.TryAcquire("late"); ok {
			t.Error("a tenant has two shares")
		}
		fourth()
		waiting.Wait()
		greedy()
		if n := s.tenants.Len(); n != 0 {
			t.Errorf("%d tenants are remembered", n)
		}
	})
}
