package decide

import (
	"cmp"
	"strings"

	"github.com/hived/hived/protocol"
	"github.com/hived/hived/task"
)

// This file has all command lines that texts of this package show to people;
// TestCommandLines holds the others to that.

const (
	lineStatus     = "hived status"
	lineStatusJSON = "hived status --json"
	lineTasks      = "hived task list"
	lineUnwind     = "hived step --unwind"
)

// commandNames are the commands for the events that the command line names otherwise.
var commandNames = map[string]string{
	string(task.PauseForApproval):   "task ask",
	string(task.BlockOnDependency):  "task block",
	string(task.TransientError):     "task fail",
	eventFailure:                    "task fail",
	string(task.Recovered):          "task progress",
	string(task.FatalError):         "task give-up",
	string(task.ApprovalGranted):    "approve",
	string(task.ApprovalDenied):     "deny",
	string(task.DependencyResolved): "task answer",
	commandContinue:                 "continue",
	commandGitPause:                 "git pause",
	commandGitResume:                "git resume",
}

// taskLine returns the command that sends an event of a task. An empty id and empty
// arguments are left out.
func taskLine(event task.Event, id protocol.TaskID, args string) string {
	line := "hived " + cmp.Or(commandNames[string(event)], "task "+string(event))
	if id != "" {
		line += " " + string(id)
	}
	return line + strings.TrimRight(" "+args, " ")
}

// hiveLine returns the command that sends an event about the hive, or about an agent
// if args begin with one.
func hiveLine(event, args string) string {
	return "hived " + strings.Replace(event, "-", " ", 1) + strings.TrimRight(" "+args, " ")
}

func lineShow(id protocol.TaskID) string { return "hived task show " + string(id) }

func lineTasksIn(s task.State) string { return lineTasks + " --state " + string(s) }

func lineContinue(conv protocol.ConversationID) string { return "hived continue " + string(conv) }

func lineContinueAgent(id protocol.AgentID) string { return "hived continue --agent " + string(id) }

func lineInbox(id protocol.AgentID) string { return "hived inbox --agent " + string(id) }

func lineDone(id protocol.AgentID) string { return "hived done --agent " + string(id) + " MESSAGE" }

func lineLog(kind protocol.Kind) string { return "hived log --kind " + string(kind) }
