# Has the kubelet talk to the API server SERVER.
source lib-job.sh
conf=/etc/kubernetes/kubelet.conf
cp -p "$conf" "$STATE/kubelet.conf.before"
SERVER=$SERVER awk '
  match($0, /^ *server: */) { print substr($0, 1, RLENGTH) ENVIRON["SERVER"]; next }
  { print }
' "$conf" >"$conf.new"
chmod --reference="$conf" "$conf.new"
sync "$conf.new"
mv "$conf.new" "$conf"
