package main

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
)

const budgets = "poddisruptionbudgets"

// kinds that a manifest may have, by the resource that they are.
var kinds = map[string]func() runtime.Object{
	"deployments":  func() runtime.Object { return &appsv1.Deployment{} },
	"replicasets":  func() runtime.Object { return &appsv1.ReplicaSet{} },
	"statefulsets": func() runtime.Object { return &appsv1.StatefulSet{} },
	daemonSets:     func() runtime.Object { return &appsv1.DaemonSet{} },
	budgets:        func() runtime.Object { return &policyv1.PodDisruptionBudget{} },
}

func init() {
	for resource, list := range map[string]func() runtime.Object{
		"deployments":            func() runtime.Object { return &appsv1.DeploymentList{} },
		"replicasets":            func() runtime.Object { return &appsv1.ReplicaSetList{} },
		"statefulsets":           func() runtime.Object { return &appsv1.StatefulSetList{} },
		"controllerrevisions":    func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		budgets:                  func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		"replicationcontrollers": func() runtime.Object { return &v1.ReplicationControllerList{} },
		"persistentvolumeclaims": func() runtime.Object { return &v1.PersistentVolumeClaimList{} },
	} {
		listOf[resource] = list
	}
}

func init() {
	otherActions["apply"] = func(w *world, asked event) {
		object := kinds[asked.Resource]()
		read(asked.Manifest, object)
		if _, err := w.store.create(asked.Resource, object); err != nil {
			panic(err)
		}
	}
	for action, unschedulable := range map[string]bool{"cordon": true, "uncordon": false} {
		otherActions[action] = func(w *world, asked event) {
			w.editNode(asked.Node, func(node *v1.Node) { node.Spec.Unschedulable = unschedulable })
		}
	}
	otherActions["scale"] = func(w *world, asked event) {
		_, _ = w.store.modify(asked.Resource, namespace, asked.App, func(was runtime.Object) (runtime.Object, error) {
			replicas := reflect.ValueOf(was).Elem().FieldByName("Spec").FieldByName("Replicas")
			replicas.Elem().SetInt(int64(asked.Count))
			accessor(was).SetGeneration(accessor(was).GetGeneration() + 1)
			return was, nil
		})
	}
	otherActions["unready"] = func(w *world, asked event) {
		for _, pod := range w.some(asked) {
			w.editPod(pod, func(is *v1.Pod) {
				for i := range is.Status.Conditions {
					each := &is.Status.Conditions[i]
					if each.Type == v1.PodReady || each.Type == v1.ContainersReady {
						each.Status, each.LastTransitionTime = v1.ConditionFalse, metav1.NewTime(time.Now().Truncate(time.Second))
					}
				}
			})
		}
	}
	otherActions["lose"] = func(w *world, asked event) {
		for _, pod := range w.some(asked) {
			_ = w.store.deletePod(pod.Namespace, pod.Name, nil, pod.UID)
		}
	}
	otherActions["allow"] = func(w *world, asked event) {
		_, _ = w.store.modify(budgets, namespace, asked.App, func(was runtime.Object) (runtime.Object, error) {
			is := was.(*policyv1.PodDisruptionBudget)
			is.Spec = policyv1.PodDisruptionBudgetSpec{}
			read(asked.Manifest, &is.Spec)
			is.Generation++
			return is, nil
		})
	}
	beforeAnything = append(beforeAnything, func(w *world) {
		w.store.admit = w.admit
		w.created = func(pod *v1.Pod) {
			if pod.Status.Phase == v1.PodPending {
				go w.run(pod)
			}
		}
	})
}

// some are the first pods of an app that are ready, as many as are asked for.
func (w *world) some(asked event) []*v1.Pod {
	var chosen []*v1.Pod
	found, _ := w.store.list(pods, namespace)
	for _, each := range found {
		pod := each.(*v1.Pod)
		if pod.Labels["app"] == asked.App && pod.DeletionTimestamp == nil && podutil.IsPodReady(pod) && len(chosen) < asked.Count {
			chosen = append(chosen, pod)
		}
	}
	return chosen
}

// admit does to a new object what the API server does: names, defaults, and what admission adds to pods.
func (w *world) admit(resource string, object runtime.Object) {
	is := accessor(object)
	if is.GetName() == "" {
		suffix := make([]byte, 5)
		for i := range suffix {
			suffix[i] = "bcdfghjklmnpqrstvwxz2456789"[int(w.random()*27)]
		}
		is.SetName(is.GetGenerateName() + string(suffix))
	}
	legacyscheme.Scheme.Default(object)
	is.SetGeneration(1)
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	if pod.Status.Phase == "" {
		pod.Status.Phase = v1.PodPending
	}
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		taint, seconds := v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute}, int64(300)
		if !tolerates(pod, taint) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
				Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
	}
}

func tolerates(pod *v1.Pod, taint v1.Taint) bool {
	for _, each := range pod.Spec.Tolerations {
		matches := each.Operator == v1.TolerationOpExists || each.Value == taint.Value
		if matches && (each.Key == "" || each.Key == taint.Key) && (each.Effect == "" || each.Effect == taint.Effect) {
			return true
		}
	}
	return false
}

// run is what becomes of a new pod: a node, a container that runs, and one that is ready.
func (w *world) run(pod *v1.Pod) {
	if pod.Spec.NodeName == "" {
		if pod = w.bind(pod); pod == nil {
			return
		}
	}
	ready := w.spec.ReadyNs[0] + int64(w.random()*float64(w.spec.ReadyNs[1]-w.spec.ReadyNs[0]))
	running := min(int64(w.random()*float64(time.Second)), ready)
	time.Sleep(time.Duration(running))
	w.postPod(pod, false)
	time.Sleep(time.Duration(ready - running + int64(w.random()*float64(300*millisecond))))
	w.postPod(pod, true)
}

// bind gives a pod one of the nodes that let it in, as soon as there is one; nil if it is gone before.
func (w *world) bind(pod *v1.Pod) *v1.Pod {
	for {
		time.Sleep(3*millisecond + time.Duration(w.random()*float64(90*millisecond)))
		found, err := w.store.get(pods, pod.Namespace, pod.Name)
		if err != nil || found.(*v1.Pod).UID != pod.UID || found.(*v1.Pod).DeletionTimestamp != nil {
			return nil
		}
		names := w.nodesFor(pod)
		if len(names) == 0 {
			continue
		}
		node := names[int(w.random()*float64(len(names)))]
		bound, err := w.store.modify(pods, pod.Namespace, pod.Name, func(was runtime.Object) (runtime.Object, error) {
			is := was.(*v1.Pod)
			if is.UID != pod.UID || is.DeletionTimestamp != nil {
				return nil, nil
			}
			is.Spec.NodeName = node
			setCondition(is, v1.PodScheduled)
			return is, nil
		})
		if err != nil || bound.(*v1.Pod).Spec.NodeName == "" {
			return nil
		}
		return bound.(*v1.Pod)
	}
}

func (w *world) nodesFor(pod *v1.Pod) []string {
	found, _ := w.store.list(nodes, "")
	var names []string
	for _, each := range found {
		node := each.(*v1.Node)
		taints := node.Spec.Taints
		if node.Spec.Unschedulable {
			taints = append(taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
		}
		refused := slices.ContainsFunc(taints, func(taint v1.Taint) bool { return !tolerates(pod, taint) })
		fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
		if err != nil {
			panic(err)
		}
		if !refused && fits && readyOf(node) == string(v1.ConditionTrue) {
			names = append(names, node.Name)
		}
	}
	return names
}

// postPod is what a kubelet says of one pod.
func (w *world) postPod(pod *v1.Pod, ready bool) {
	if !w.kubelet(pod.Spec.NodeName).isUp() {
		return
	}
	w.editPod(pod, func(is *v1.Pod) {
		is.Status.Phase = v1.PodRunning
		if ready {
			setCondition(is, v1.ContainersReady)
			setCondition(is, v1.PodReady)
		}
	})
}

// editPod changes a pod that is not on its way out.
func (w *world) editPod(pod *v1.Pod, edit func(*v1.Pod)) {
	_, _ = w.store.modify(pods, pod.Namespace, pod.Name, func(was runtime.Object) (runtime.Object, error) {
		is := was.(*v1.Pod)
		if is.UID != pod.UID || is.DeletionTimestamp != nil {
			return nil, nil
		}
		edit(is)
		return is, nil
	})
}

func setCondition(pod *v1.Pod, kind v1.PodConditionType) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for _, each := range pod.Status.Conditions {
		if each.Type == kind {
			panic(fmt.Sprint(pod.Name, " has had ", kind))
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: now})
}
