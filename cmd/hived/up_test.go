package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestExplainFullDisk(t *testing.T) {
	full := fmt.Errorf("write .hived/log.new: %w", syscall.ENOSPC)
	if got := explainFullDisk(full); !errors.Is(got, syscall.ENOSPC) || !strings.Contains(got.Error(), "make room and start again") {
		t.Errorf("%v does not say what to do", got)
	}
	if got := explainFullDisk(errAnsweredNo); got != errAnsweredNo { //nolint:errorlint // the very same
		t.Errorf("%v was %v", got, errAnsweredNo)
	}
}
