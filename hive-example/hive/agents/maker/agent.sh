#!/bin/sh
# maker knows the words, a sentence for each step, but not all of them are true.
set -eu
. "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"

while receive; do
	case $kind in
	planner/request)
		text=''
		for step in $body; do
			text="$text${text:+; }$(sed -n "s/^$step: //p" words.txt)"
		done
		printf '%s\n' "$text" | keep draft.txt
		# Nobody has that name. hive will say so, and who may be meant.
		answer cheker request 'is this true?' "$text"
		;;
	hive/no-inbox)
		# "… there is no agent \"cheker\"; did you mean checker?"
		meant=$(printf '%s\n' "$body" | sed 's/.*did you mean \([^ ?]*\).*/\1/')
		answer "$meant" request 'is this true?' "$(cat draft.txt)"
		;;
	checker/refuse)
		# "not mud but wax: …the text that was refused…"
		reason=${body%%: *}
		text=${body#*: }
		wrong=${reason#not }
		wrong=${wrong%% *}
		right=${reason##* }
		answer checker request 'is it true now?' "$(printf '%s\n' "$text" | sed "s/$wrong/$right/g")"
		;;
	checker/agree)
		answer planner done 'here it is' "$body"
		send checker inform 'thank you' 'Thank you for your care.'
		;;
	checker/inform)
		if [ "$subject" = enough ]; then
			leave
		fi
		answer checker inform 'thank you' 'No, thank you!'
		;;
	hive/hop-cap)
		# Two polite agents never end. hived counted what they did not count.
		send checker inform enough 'hive has stopped our thanks. Let us leave it at that.'
		leave
		;;
	esac
	handled
done
