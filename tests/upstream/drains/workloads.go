package main

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/statefulset"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/flowcontrol"
)

const millisecond = time.Millisecond

func init() { prepareOthers = append(prepareOthers, (*world).prepareWorkloads) }

// prepareWorkloads makes upstream's controllers of whatever has pods, and of budgets; each of their writes takes as long as is
// assumed of them (DrainTiming), or less.
func (w *world) prepareWorkloads(alive context.Context, seed int64) func() {
	ctx := context.Background()
	slow := w.random()
	budgets := w.controllerClient(newPauses(alive, 2*millisecond, 3*millisecond+time.Duration(slow*90)*millisecond, seed+3))
	owners := func(number int64) kubernetes.Interface {
		return w.controllerClient(newPauses(alive, 4*millisecond, 5*millisecond+time.Duration(slow*50)*millisecond, seed+number))
	}
	shared := newInformers(alive, w.store, lag{})
	core, apps := shared.Core().V1(), shared.Apps().V1()
	disruptions := disruption.NewDisruptionController(
		ctx, core.Pods(), shared.Policy().V1().PodDisruptionBudgets(), core.ReplicationControllers(), apps.ReplicaSets(), apps.Deployments(),
		apps.StatefulSets(), budgets, meta.NewDefaultRESTMapper(nil), nil, budgets.Discovery())
	replicaSets := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), owners(4), replicaset.BurstReplicas)
	statefulSets := statefulset.NewStatefulSetController(
		ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), owners(5))
	deployments, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), owners(6))
	if err != nil {
		panic(err)
	}
	daemons, err := daemon.NewDaemonSetsController(
		ctx, apps.DaemonSets(), apps.ControllerRevisions(), core.Pods(), core.Nodes(), owners(7), flowcontrol.NewBackOff(time.Second, 15*time.Minute))
	if err != nil {
		panic(err)
	}
	shared.Start(ctx.Done())
	return func() {
		go runDisruptions(ctx, disruptions.Run)
		go replicaSets.Run(ctx, 5)
		go statefulSets.Run(ctx, 5)
		go deployments.Run(ctx, 5)
		go daemons.Run(ctx, 2)
	}
}

// runDisruptions is how a release lets its disruption controller run: newer ones with several workers.
func runDisruptions(ctx context.Context, run any) {
	switch run := run.(type) {
	case func(context.Context, int):
		run(ctx, 5)
	case func(context.Context):
		run(ctx)
	}
}
