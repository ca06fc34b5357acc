//go:build !unix

package main

import "github.com/rogpeppe/go-internal/testscript"

func unprivileged(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("only Unix knows how")
}

func beSomebodyElse() {}
