#!/bin/sh
# planner knows what is to be told and in which order, but not a word of it.
set -eu
. "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"

send broadcast inform 'we begin' 'Today we write down how honey is made.'
send maker request 'how is honey made?' 'gather dry seal'

while receive; do
	case $kind in
	maker/done)
		{
			printf '%s\n\n' 'How honey is made'
			printf '%s\n' "$body" | tr ';' '\n' | sed 's/^ //'
		} | keep result.txt
		answer human inform 'how honey is made' 'It is written: agents/planner/result.txt'
		leave
		;;
	esac
	handled
done
