package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// busyState is the error, with the state directory, of a command that meets one that starts a
// cluster.
const busyState = "another command is starting a cluster with its files in %s. " +
	"Fix: wait until the cluster runs, or interrupt that command"

// lockFolder makes a folder. Others cannot lock it until unlock is called or this process ends; they
// get the error busy, which has a verb for the folder.
func lockFolder(folder, busy string) (unlock func(), err error) {
	for {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("making the folder to lock: %w", err)
		}
		opened, err := os.Open(folder)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("opening the folder to lock: %w", err)
		}
		err = syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf(busy, folder), opened.Close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", folder, err), opened.Close())
		}
		if isAt(opened, folder) {
			return func() { _ = opened.Close() }, nil
		}
		// It was removed before it was locked.
		if err := opened.Close(); err != nil {
			return nil, fmt.Errorf("closing the folder: %w", err)
		}
	}
}

// isAt reports whether a path still names what was opened.
func isAt(opened *os.File, path string) bool {
	before, errBefore := opened.Stat()
	now, errNow := os.Stat(path)
	return errBefore == nil && errNow == nil && os.SameFile(before, now)
}
