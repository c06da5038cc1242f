# The recorded snapshot exists and has its recorded size. A file alone proves nothing: it may be
# half of a snapshot, or that of another upgrade.
source lib-check.sh
read -r _ size file <"$OP/etcd-snapshot" && [ "$(stat -c %s "$file")" = "$size" ]
