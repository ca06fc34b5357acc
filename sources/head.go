package sources

// A Head keeps the beginning of what is written to it, such as the output of a program.
type Head struct {
	Limit int  // in bytes
	Cut   bool // more was written

	kept []byte // no bytes.Buffer, whose ReadFrom would have no limit
}

// Write implements [io.Writer].
func (h *Head) Write(p []byte) (int, error) {
	n := min(len(p), h.Limit-len(h.kept))
	h.kept = append(h.kept, p[:n]...)
	h.Cut = h.Cut || n < len(p)
	return len(p), nil
}

// Bytes returns what was kept.
func (h *Head) Bytes() []byte { return h.kept }
