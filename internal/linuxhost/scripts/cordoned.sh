# Records, before a drain, that the node was schedulable: the upgrade makes it schedulable again,
# and so does one to another version of the minor.
source lib-job.sh
write "$KEEP/cordoned" "$VERSION"
