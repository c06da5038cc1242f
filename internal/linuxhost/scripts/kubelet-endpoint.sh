# Has the kubelet talk to the API server SERVER. The file may hold the key of the kubelet, so its copy
# is never readable for others.
source lib-job.sh
conf=/etc/kubernetes/kubelet.conf
cp -p "$conf" "$STATE/kubelet.conf.before"
rm -f "$conf.new"
(umask 077; SERVER=$SERVER awk '
  match($0, /^ *server: */) { print substr($0, 1, RLENGTH) ENVIRON["SERVER"]; next }
  { print }
' "$conf" >"$conf.new")
chown --reference="$conf" "$conf.new"
chmod --reference="$conf" "$conf.new"
sync "$conf.new"
mv "$conf.new" "$conf"
