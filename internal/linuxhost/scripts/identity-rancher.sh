# The agent's kubelet uses these files.
source lib-identity.sh
source lib-rancher.sh
unit=$(node_unit)
data=$(data_dir)
fact node-certificate "$(certificates "$data/agent/client-kubelet.crt")"
fact authorities "$(certificates "$data/agent/server-ca.crt")"
fact end yes
