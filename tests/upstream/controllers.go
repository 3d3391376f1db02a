package main

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
)

// cachesFillIn is how long before its first tick a process begins to list: it looks every 100 ms whether all is there.
const cachesFillIn = 150 * time.Millisecond

// finishedPodsKept is --terminated-pod-gc-threshold.
const finishedPodsKept = 12500

// parts is what a process makes its controllers of; how their constructors want it is told by a file of releases/.
type parts struct {
	lifecycle, eviction, collection *client
	informers                       informers.SharedInformerFactory
	flags                           flags
}

// prepare makes one process of kube-controller-manager, upstream's own controllers, and fills its caches. The
// function that it returns lets them run, with a first tick at once. When alive ends nobody answers the process any
// more: it is not told to stop, because what upstream does then spins until another goroutine gets a turn, which this
// clock never gives.
func (w *world) prepare(alive context.Context, seed int64) func() {
	ctx := context.Background()
	slowest := time.Duration(w.spec.SlowestWriteNs)
	made := parts{
		lifecycle:  newClient(alive, w.store, true, slowest, seed),
		eviction:   newClient(alive, w.store, true, slowest, seed+1),
		collection: newClient(alive, w.store, false, slowest, seed+2),
		flags:      w.spec.Flags,
	}
	made.informers = informers.NewSharedInformerFactory(made.lifecycle, 0)
	made.flags.NodeMonitorPeriod += time.Duration(w.spec.TickCostNs)
	controllers := made.controllers(ctx)
	made.informers.Start(ctx.Done())
	return func() {
		for _, run := range controllers {
			go run()
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
