//go:build linux

package pid1

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/windlass-dev/windlass/lab/internal/hosts/internal/wire"
)

func listen() (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: wire.Socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return listener, os.Chmod(wire.Socket, 0o666)
}

func serve(listener *net.UnixListener, manager *manager) {
	for {
		connection, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			answer(connection, manager)
		}()
	}
}

func answer(connection *net.UnixConn, manager *manager) {
	var request wire.Request
	if err := json.NewDecoder(connection).Decode(&request); err != nil {
		return
	}
	response := handle(connection, manager, request)
	// A client that has gone needs no answer.
	_ = json.NewEncoder(connection).Encode(response)
}

func handle(connection *net.UnixConn, manager *manager, request wire.Request) wire.Response {
	root := peerIsRoot(connection)
	switch {
	case len(request.Args) > 0:
		return manager.client(request.Args, root)
	case !root:
		return failure(1, "only root may do this")
	case request.Shutdown:
		manager.shutdown()
		return wire.Response{}
	case request.SyncDelay != nil:
		syncDelay.Store(int64(*request.SyncDelay))
		return wire.Response{}
	case request.Script != "":
		return script(connection, manager.processes, request.Script)
	case request.ReadOnly != "":
		return mounted(readOnly(request.ReadOnly))
	case request.Writable != "":
		return mounted(writable(request.Writable))
	}
	return failure(1, "an empty request")
}

func mounted(err error) wire.Response {
	if err != nil {
		return failure(1, "%v", err)
	}
	return wire.Response{}
}

func peerIsRoot(connection *net.UnixConn) bool {
	raw, err := connection.SyscallConn()
	if err != nil {
		return false
	}
	root := false
	err = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		root = err == nil && peer.Uid == 0
	})
	return err == nil && root
}

// script runs a bash script. It is killed when the client goes away before it has ended; what it leaves in the background
// stays.
func script(connection *net.UnixConn, processes *processes, text string) wire.Response {
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		return failure(1, "%v", err)
	}
	defer func() { _ = stdin.Close() }()
	// A file, not a pipe: what the script leaves in the background would hold a pipe open.
	output, err := memory("output")
	if err != nil {
		return failure(1, "%v", err)
	}
	defer func() { _ = output.Close() }()
	environment := []string{"PATH=" + searchPath, "HOME=/root", "USER=root", "LANG=C.UTF-8"}
	pid, ended, err := processes.spawn([]string{"/bin/bash", "-c", text}, environment, "/root", [3]*os.File{stdin, output, output})
	if err != nil {
		return failure(127, "%v", err)
	}
	gone := make(chan struct{})
	go func() {
		// The client sends nothing more: all there is to read is that it has gone.
		_, _ = connection.Read(make([]byte, 1))
		close(gone)
	}()
	var status exit
	select {
	case status = <-ended:
	case <-gone:
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		status = <-ended
	}
	text, err = contents(output)
	if err != nil {
		return failure(1, "%v", err)
	}
	return wire.Response{Stdout: []byte(text), Code: status.code()}
}

func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND); err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func contents(file *os.File) (string, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}

func failure(code int, format string, args ...any) wire.Response {
	return wire.Response{Stderr: fmt.Appendf(nil, format+"\n", args...), Code: code}
}
