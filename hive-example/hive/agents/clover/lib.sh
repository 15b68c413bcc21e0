# lib.sh: being an agent with nothing but files.
#
# Copy it into your own agent's directory and begin your script with
#
#     . "$HIVE_DIR/agents/$HIVE_AGENT/lib.sh"
#
# It needs sh, cat, mkdir, mv, sed and sleep. Texts to be sent are written as
# inside a JSON string (\n for a line break, \" for a quotation mark). Texts that
# were received look like that too, so they can be passed on as they are.

# Names sort by byte, so that inbox/*.json is in the order of arrival.
LC_ALL=C
export LC_ALL

cd "$HIVE_DIR/agents/$HIVE_AGENT"
mkdir -p outbox inbox/.done

# How long to wait for a message: 400 short naps, or 20 long ones where sleep
# takes whole seconds only. That is 20 seconds.
if sleep 0.05 2>/dev/null; then
	nap=0.05 naps=400
else
	nap=1 naps=20
fi

posted=0   # files written by this script
answered=0 # answers to the message at hand

# receive takes up the oldest message of the inbox, waiting for one if need be.
# Reading consumes nothing: the message stays until it is handled.
receive() {
	left=$naps
	until message=$(oldest); do
		left=$((left - 1))
		if [ "$left" -le 0 ]; then
			echo "$HIVE_AGENT: no message came for 20 seconds; is hived running in $HIVE_DIR?" >&2
			exit 1
		fi
		sleep "$nap"
	done
	answered=0
	from=$(field from)
	id=$(field id)
	conversation=$(field conversation)
	subject=$(field subject)
	body=$(field body)
	# What hive says goes by its code, what anybody else says by its act.
	case $from in
	hive) kind=hive/$(fact code) ;;
	*) kind=$from/$(field act) ;;
	esac
}

# oldest prints the name of the oldest message of the inbox; it fails where there
# is none. A listing that goes on while messages arrive may show one and miss an
# older one. What is older than any that it showed is in the next listing.
oldest() {
	set -- inbox/*.json
	[ -f "$1" ] || return 1
	for file in inbox/*.json; do
		if whole "$file"; then
			printf '%s\n' "$file"
			return 0
		fi
	done
	return 1
}

# whole succeeds for a message that is all there: hived begins and ends each with
# a line of its own. A power cut can leave an empty file, or the beginning of one.
# That is not there yet: hived writes it again when it starts.
whole() {
	case $(sed -n -e 1p -e '$p' "$1" 2>/dev/null) in
	'{
}') return 0 ;;
	*) return 1 ;;
	esac
}

# handled puts the message at hand away. It comes last: a script that is
# stopped before it finds the message again when it is started again.
handled() {
	mv "$message" inbox/.done/
}

# leave handles the message at hand and ends the script.
leave() {
	handled
	exit 0
}

# field NAME prints a member of the message at hand: hived writes each member
# on a line of its own.
field() {
	sed -n -e "/^  \"$1\": /{" -e 's///' -e 's/,$//' -e 's/^"\(.*\)"$/\1/' -e p -e '}' "$message"
}

# fact NAME prints a member of its data, which is where hive says things for
# programs to read.
fact() {
	field data | sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'
}

# send TO ACT SUBJECT BODY begins a conversation.
send() {
	post "{$(members "$@")}"
}

# answer TO ACT SUBJECT BODY goes on with the conversation of the message at
# hand. The id follows from that message: if it is handled twice, hived takes
# the second answer for the first one come again.
answer() {
	answered=$((answered + 1))
	cause=${message##*/}
	post "{$(members "$@"), \"id\": \"$HIVE_AGENT-${cause%.json}-$answered\", \"in_reply_to\": \"$id\", \"conversation\": \"$conversation\"}"
}

# report ACT EVENT DATA tells hive what becomes of the task at hand. An act of
# request asks for an answer: that to accept carries the epoch.
report() {
	post "{\"to\": \"hive\", \"act\": \"$1\", \"event\": \"$2\", \"task\": \"$task\"${epoch:+, \"epoch\": $epoch}, \"data\": $3}"
}

members() {
	printf '"to": "%s", "act": "%s", "subject": "%s", "body": "%s"' "$1" "$2" "$3" "$4"
}

# post OBJECT writes a message into the outbox. The file gets its name when it
# is complete, because hived takes whatever ends in .json.
post() {
	posted=$((posted + 1))
	printf '%s\n' "$1" >"outbox/$$-$posted.tmp"
	mv "outbox/$$-$posted.tmp" "outbox/$$-$posted.json"
}

# keep NAME writes what it reads to a file of the agent's own, whole or not at
# all: hived keeps versions of these files, and half of one is none.
keep() {
	cat >"outbox/$1.tmp"
	mv "outbox/$1.tmp" "$1"
}
