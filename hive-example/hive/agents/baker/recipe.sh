#!/bin/sh
# What the baker's worker runs for its task. `hived step` sees to it that each step
# happens once, however often this script is killed and started again. Each leaves a line
# in the file loaf of the directory $1, which is outside the hive and knows nothing of it.
set -eu
for step in mix knead prove shape bake; do
	hived step "$step" -- sh -c 'echo "$1" >>"$2/loaf"' sh "$step" "$1"
	if [ "$step" = prove ] && [ "$HIVE_EPOCH" = 1 ]; then
		sleep 60 # the dough takes its time; meanwhile the worker is killed
	fi
done
