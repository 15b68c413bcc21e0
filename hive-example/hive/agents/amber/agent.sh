#!/bin/sh
# amber and clover fill jars with honey. That is a task: either of them may take
# it, and where one is killed, the other goes on from the checkpoint.
set -eu
. "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"

# jars FILE prints how many jars a file of the task speaks of.
jars() {
	sed -n 's/.*"jars": *\([0-9]*\).*/\1/p' "$HIVE_DIR/tasks/$task/$1"
}

# fill takes so many naps for a jar, and shows at each that it is alive.
fill() {
	left=$1
	until [ "$left" -le 0 ]; do
		: >alive
		sleep "$nap"
		left=$((left - 1))
	done
	{
		cat jars.txt 2>/dev/null || :
		echo "jar $full"
	} | keep jars.txt
}

# work fills what is not full yet. Whoever begins the task has thick honey, which
# takes long from the second jar on: long enough to be killed.
work() {
	report inform start '{}'
	full=0 slow=$naps quick=$((naps / 50))
	if [ -f "$HIVE_DIR/tasks/$task/checkpoint.json" ]; then
		full=$(jars checkpoint.json) slow=$quick
	fi
	while [ "$full" -lt "$(jars brief.json)" ]; do
		full=$((full + 1))
		fill "$quick"
		report inform progress "{\"milestone\": \"jar $full is full\", \"checkpoint\": {\"jars\": $full}}"
		quick=$slow
	done
	report inform pause_for_approval "{\"question\": \"$full jars are full. May they be sold?\"}"
}

while receive; do
	task=$(fact task)
	epoch=$(fact epoch)
	case $kind/$(fact event) in
	hive/task-offer/)
		epoch=''
		report request accept '{}'
		;;
	hive/ok/accept)
		work
		;;
	hive/approved/)
		report request complete "{\"result\": {\"jars\": $(jars brief.json)}}"
		;;
	hive/ok/complete)
		leave
		;;
	esac
	handled
done
