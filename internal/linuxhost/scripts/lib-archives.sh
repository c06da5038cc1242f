# Archives of images for RKE2 and K3s. What is known of those in their places is kept elsewhere: the
# service reads each file beside them.
source lib-rancher.sh
source lib-known.sh
placed=$STATE/archives
unit=$(node_unit)
images=$(data_dir)/agent/images

# images_settled tells whether the binary is in its place. The archives come before it.
images_settled() { [ "$(digest "$BIN/$DISTRIBUTION")" = "$PROGRAM" ]; }

# is_placed NAME DIGEST tells whether an archive with a digest is in its place.
is_placed() {
  [ -f "$images/$1" ] && [ "$(cat "$placed/$1" 2>/dev/null)" = "$(sum_of "$images/$1" "$2")" ]
}
