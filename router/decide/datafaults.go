package decide

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hived/hived/protocol"
)

// The members that the data of a report, of a new task, and of a command about the
// hive can have.
var (
	reportMembers  = membersOf[protocol.TaskReport]()
	specMembers    = membersOf[protocol.TaskSpec]()
	commandMembers = membersOf[commandData]()
)

// strictOptions are for decoding the data of a command: an unknown member is an
// error, and a single string may stand for a list.
var strictOptions = json.JoinOptions(json.RejectUnknownMembers(true), protocol.OneIsAList())

func membersOf[T any]() (list []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Anonymous { // its members are members of this one
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}

// dataFault returns why data does not fit: which member, what it has and what is
// wanted. For an unknown member it names the nearest known ones.
func dataFault(err error, known []string) string {
	e, ok := errors.AsType[*json.SemanticError](err)
	switch {
	case !ok:
		return protocol.Visible(err.Error())
	case errors.Is(err, json.ErrUnknownName):
		name := e.JSONPointer.LastToken()
		return "there is no member " + protocol.Quote(protocol.Fit(name, 64)) + didYouMean(name, slices.Clone(known), "PROTOCOL.md lists them")
	case e.GoType == nil:
		return protocol.Visible(err.Error())
	}
	where := "data" + strings.ReplaceAll(string(e.JSONPointer), "/", ".")
	if e.GoType == reflect.TypeFor[time.Time]() {
		return where + " is no time such as 2026-11-21T09:00:00Z"
	}
	return protocol.Visible(protocol.Fit(where, 128)) + " is " + protocol.KindName(e.JSONKind) + ", and " + jsonKindOf(e.GoType) + " is wanted"
}

// jsonKindOf returns the name of the kind of JSON value that a type is encoded as.
func jsonKindOf(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // all others are numbers
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "an object"
	}
	return "a whole number that is not too large"
}
