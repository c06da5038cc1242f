# Records, before a drain, that the node was schedulable: the upgrade makes it schedulable again.
source lib-job.sh
write "$KEEP/cordoned" yes
