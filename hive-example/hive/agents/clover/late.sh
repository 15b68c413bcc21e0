#!/bin/sh
# late.sh: the one that was killed is back. It finds in its inbox the task that it
# was working on, as if no time had passed, and sends the result that it still
# knows of. hive refuses it: another has the task by now, or has finished it.
set -eu
. "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"

while receive; do
	task=$(fact task)
	epoch=$(fact epoch)
	case $kind/$(fact event) in
	hive/ok/accept)
		report inform complete '{"result": {"jars": 1}}'
		;;
	hive/fenced/complete)
		printf -- '- %s\n' "$body" | keep memory.md
		leave
		;;
	esac
	handled
done
