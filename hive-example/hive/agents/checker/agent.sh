#!/bin/sh
# checker knows what is true, and sends back what is not.
set -eu
. "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"

while receive; do
	case $kind in
	maker/request)
		verdict=''
		while read -r wrong right; do
			case $body in
			*"$wrong"*) verdict="not $wrong but $right" ;;
			esac
		done <facts.txt
		if [ -z "$verdict" ]; then
			sentences=$(printf '%s' "$body" | tr -cd . | wc -c)
			answer maker agree 'it is true' "$body; ; Checked by checker: $((sentences)) sentences."
		else
			# Written by hand, and a comma was forgotten.
			printf '{"to": "maker" "act": "refuse", "in_reply_to": "%s",\n "subject": "%s", "body": "%s"}\n' \
				"$id" "it is not true" "$verdict: $body" | keep draft.json
			post "$(cat draft.json)"
		fi
		;;
	hive/malformed)
		# The notice says what was wrong, and where. Keep the lesson, put the
		# comma in at that place, and send the answer again.
		{
			cat memory.md 2>/dev/null || :
			printf -- '- %s\n' "$body"
		} | keep memory.md
		line=$(fact line)
		column=$(fact column)
		post "$(sed "${line}s/^.\{$((column - 1))\}/&,/" draft.json)"
		;;
	maker/inform)
		if [ "$subject" = enough ]; then
			leave
		fi
		answer maker inform 'thank you' 'No, thank you!'
		;;
	hive/hop-cap)
		send maker inform enough 'hive has stopped our thanks. Let us leave it at that.'
		leave
		;;
	esac
	handled
done
