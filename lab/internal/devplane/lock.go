package devplane

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// acquireLock takes the lock that a plane's supervisor holds for as long as it lives; the parent
// hands it over with the open file. ok is false when another plane has it.
func acquireLock(l layout) (file *os.File, ok bool, err error) {
	return lockAt(l.lock(), func() (*os.File, error) {
		return os.OpenFile(l.lock(), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	})
}

// LockFolder makes a folder, and locks it until unlock is called or this process ends. ok is false
// when somebody else has the lock.
func LockFolder(folder string) (unlock func(), ok bool, err error) {
	opened, ok, err := lockAt(folder, func() (*os.File, error) {
		for {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return nil, err
			}
			opened, err := os.Open(folder)
			if !errors.Is(err, os.ErrNotExist) {
				return opened, err
			}
		}
	})
	return func() { _ = opened.Close() }, ok, err
}

// lockAt locks the file or folder at a path that open opens. ok is false when somebody else has the
// lock.
func lockAt(path string, open func() (*os.File, error)) (file *os.File, ok bool, err error) {
	for {
		file, err := open()
		if err != nil {
			return nil, false, fmt.Errorf("opening the lock: %w", err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, false, file.Close()
		}
		if err != nil {
			return nil, false, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if same, err := isCurrent(file, path); err != nil || same {
			return file, err == nil, err
		}
		// It was removed between opening and locking: what is locked has no name any more.
		if err := file.Close(); err != nil {
			return nil, false, fmt.Errorf("closing the lock: %w", err)
		}
	}
}

func isCurrent(file *os.File, path string) (bool, error) {
	open, err := file.Stat()
	if err != nil {
		return false, fmt.Errorf("reading the lock: %w", err)
	}
	named, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the lock: %w", err)
	}
	return os.SameFile(open, named), nil
}
