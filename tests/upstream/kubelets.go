package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelet renews the Lease of its node, posts its status, and ends its pods.
type kubelet struct {
	world   *world
	node    string
	mu      sync.Mutex
	cancel  context.CancelFunc // nil while it is silent
	renewed time.Time
	posted  time.Time
	due     time.Time // from when on it posts its status again, although nothing in it changes
}

func (w *world) kubelet(node string) *kubelet {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kubelets[node] == nil {
		w.kubelets[node] = &kubelet{world: w, node: node}
	}
	return w.kubelets[node]
}

func (w *world) random() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Float64()
}

// begin lets the kubelet renew from now on, for the first time after a phase.
func (k *kubelet) begin(phase time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
	}
	ctx, cancel := context.WithCancel(k.world.ctx)
	k.cancel = cancel
	go k.report(ctx)
	go func() {
		for pause := phase; ; pause = time.Duration(float64(renewalPeriod) * (1 + renewalJitter*k.world.random())) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			k.mu.Lock()
			if ctx.Err() == nil {
				k.renew()
			}
			k.mu.Unlock()
		}
	}()
}

// report posts the status again when that is due; a loop as slow as that of renewals looks at it.
func (k *kubelet) report(ctx context.Context) {
	for pause := time.Duration(float64(renewalPeriod) * k.world.random()); ; pause = time.Duration(float64(renewalPeriod) * (1 + renewalJitter*k.world.random())) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		k.mu.Lock()
		if ctx.Err() == nil && !time.Now().Before(k.due) {
			k.posted, k.due = time.Now(), time.Now().Add(statusPeriod)
			k.world.editNode(k.node, func(node *v1.Node) {
				for i := range node.Status.Conditions {
					node.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(time.Now().Truncate(time.Second))
				}
			})
		}
		k.mu.Unlock()
	}
}

// postsNow notes that it posts a status that may have changed: from 1.31 on the next one may come half a period earlier or later.
func (k *kubelet) postsNow() {
	delay := time.Duration(float64(statusPeriod) * (k.world.random() - 0.5))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.posted, k.due = time.Now(), time.Now().Add(statusPeriod+delay)
}

func (k *kubelet) renew() {
	k.renewed = time.Now()
	if _, err := k.world.store.get(leases, v1.NamespaceNodeLease, k.node); err == nil {
		k.world.renew(v1.NamespaceNodeLease, k.node)
		return
	}
	now, seconds, name := metav1.NewMicroTime(k.renewed), int32(leaseSeconds), k.node
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: k.node}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now, LeaseDurationSeconds: &seconds}
	_, _ = k.world.store.create(leases, lease)
}

// start is a kubelet that comes back: it renews and posts at once, and ends what was deleted meanwhile.
func (k *kubelet) start() {
	k.begin(0)
	k.world.post(k.node, v1.ConditionTrue)
	found, _ := k.world.store.list(pods, "")
	for _, each := range found {
		if pod := each.(*v1.Pod); pod.Spec.NodeName == k.node && pod.DeletionTimestamp != nil {
			go k.world.endPod(pod)
		}
	}
}

// stop silences the kubelet; it returns when it renewed last, and whether it has posted since then. Without a Lease only
// what it posted was heard (zero: nothing was).
func (k *kubelet) stop() (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cancel != nil {
		k.cancel()
		k.cancel = nil
	}
	if k.renewed.IsZero() {
		return k.posted, false
	}
	return k.renewed, k.posted.After(k.renewed)
}

func (k *kubelet) isUp() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cancel != nil
}

// post writes the Ready condition as the kubelet itself does.
func (w *world) post(node string, status v1.ConditionStatus) {
	w.kubelet(node).postsNow()
	w.editNode(node, func(node *v1.Node) {
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		if len(node.Status.Conditions) == 0 {
			node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeMemoryPressure, Status: v1.ConditionUnknown}, {Type: v1.NodeReady}}
		}
		for i := range node.Status.Conditions {
			each := &node.Status.Conditions[i]
			is := each.Status
			if each.Type == v1.NodeReady {
				is = status
			} else if is == v1.ConditionUnknown {
				is = v1.ConditionFalse
			}
			if is != each.Status {
				each.LastTransitionTime = now
			}
			each.Status, each.LastHeartbeatTime, each.Reason = is, now, "KubeletPosted"
		}
	})
}

// exitIsTold is from the exit of a container to the report of it; between nothing and nothing but with drains.
func (w *world) exitIsTold() time.Duration {
	least, most := w.spec.ExitIsToldNs[0], w.spec.ExitIsToldNs[1]
	return time.Duration(least) + time.Duration(float64(most-least)*w.random())
}

// endPod waits for the pod's exit, within its grace period, and takes the object away if the kubelet is up.
func (w *world) endPod(pod *v1.Pod) {
	grace := time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	time.Sleep(time.Duration(float64(grace)*w.random()) + w.exitIsTold())
	if w.kubelet(pod.Spec.NodeName).isUp() {
		if _, err := w.store.get(nodes, "", pod.Spec.NodeName); err == nil {
			_ = w.store.deletePod(pod.Namespace, pod.Name, new(int64), pod.UID)
		}
	}
}
