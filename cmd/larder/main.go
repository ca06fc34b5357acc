// Command larder keeps Terraform and OpenTofu providers: it finds them where
// the CLI configuration says, verifies them, keeps one copy of each on the
// machine, and installs them where terraform init and tofu init expect them.
//
// This package plugs the others together. It alone knows the command line, and
// it alone prints: results go to standard output, one to a line, and all else
// to standard error behind "larder: ", but for the bars that a terminal shows.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	log.SetOutput(io.Discard) // nobody logs but net/http, of servers that go on after their answers
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}
