package ui

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// Ask asks a question on the terminal. Anything but yes is no. A canceled context
// ends the wait for the answer; the read of standard input goes on, as nothing can
// end it.
func (o *Output) Ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(o.Stderr, "larder: %s [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case line := <-answer:
		return line == "y" || line == "yes", nil
	}
}
