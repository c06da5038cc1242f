# Records that the node is drained.
source lib-job.sh
mark drained yes
