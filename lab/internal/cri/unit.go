package cri

// Program is where Unit expects the program windlass-cri on a host.
const Program = "/usr/local/bin/windlass-cri"

// Unit is the systemd unit of the runtime. Its name on a host is containerd, so that kubelets and
// kubeadm find what they look for. KillMode=process spares the containers.
const Unit = `[Unit]
Description=Container runtime of plain processes
[Service]
Type=notify
ExecStart=` + Program + `
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
`
