package main

import (
	"fmt"

	"github.com/windlass-dev/windlass/lab/internal/devplane"
)

// busyState is the error, with the state directory, of a command that meets one that starts a
// cluster.
const busyState = "another command is starting a cluster with its files in %s. " +
	"Fix: wait until the cluster runs, or interrupt that command"

// lockFolder makes a folder. Others cannot lock it until unlock is called or this process ends;
// they get the error busy, which has a verb for the folder.
func lockFolder(folder, busy string) (unlock func(), err error) {
	unlock, ok, err := devplane.LockFolder(folder)
	if err == nil && !ok {
		err = fmt.Errorf(busy, folder)
	}
	return unlock, err
}
