// Command upstream plays worlds through upstream's own node lifecycle, taint eviction and pod garbage
// collection controllers, on a clock that only goes on when everybody waits (Go's build tag faketime).
//
//	upstream SPEC RECORDING
//
// SPEC is one world (see world.go), RECORDING what came of it: what the API server listed at the start of the
// scenario, and what a watch showed.
package main

import (
	"encoding/json"
	"os"
)

func main() {
	// Controllers log there.
	os.Stderr, _ = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	var asked spec
	if err := json.Unmarshal(text, &asked); err != nil {
		panic(err)
	}
	recorded, err := json.Marshal(play(asked))
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Args[2], recorded, 0o644); err != nil {
		panic(err)
	}
}
