//go:build linux

package hosts

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Session implements TB for a program that is no test: what ends a test ends the function that Do calls. It is not safe for
// concurrent use.
type Session struct {
	ctx  context.Context // TB returns it, as testing.TB does
	ends []func()
	errs []error
}

// NewSession returns a session whose hosts see ctx.
func NewSession(ctx context.Context) *Session { return &Session{ctx: ctx} }

// failure is the value that a Session panics with.
type failure struct{ err error }

// Do calls f, and returns the error with which a host ended it.
func (s *Session) Do(f func() error) (err error) {
	defer func() {
		switch failed := recover().(type) {
		case nil:
		case failure:
			err = failed.err
		default:
			panic(failed)
		}
	}()
	return f()
}

// End runs the cleanups, the last one first, and returns what went wrong in them.
func (s *Session) End() error {
	for _, end := range slices.Backward(s.ends) {
		if err := s.Do(func() error { end(); return nil }); err != nil {
			s.errs = append(s.errs, err)
		}
	}
	s.ends = nil
	return errors.Join(s.errs...)
}

// Context implements TB.
func (s *Session) Context() context.Context { return s.ctx }

// Cleanup implements TB.
func (s *Session) Cleanup(end func()) { s.ends = append(s.ends, end) }

// Helper implements TB.
func (s *Session) Helper() {}

// Error implements TB. End returns the error.
func (s *Session) Error(args ...any) { s.errs = append(s.errs, errors.New(fmt.Sprint(args...))) }

// Fatal implements TB. Do returns the error.
func (s *Session) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf implements TB. Do returns the error.
func (s *Session) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Skipf implements TB, as Fatalf.
func (s *Session) Skipf(format string, args ...any) { s.Fatalf(format, args...) }
