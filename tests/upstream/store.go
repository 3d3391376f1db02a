package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	nodes      = "nodes"
	pods       = "pods"
	leases     = "leases"
	daemonSets = "daemonsets"
)

// store is an API server in memory: objects with resourceVersions, watches that take no time, and
// deletions of pods that are graceful. Whoever writes says so through its methods; nothing else changes it.
type store struct {
	mu       sync.Mutex
	version  int
	objects  map[string]map[string]runtime.Object // by resource, then by NAMESPACE/NAME
	history  map[string][]change                  // what a watch that begins late is told first
	watchers map[string][]*watcher
	tell     func(was, is runtime.Object) // called with every change, under the lock
	admit    func(resource string, object runtime.Object)
}

type change struct {
	version int
	event   watch.Event
}

func newStore(tell func(was, is runtime.Object)) *store {
	return &store{
		objects:  map[string]map[string]runtime.Object{nodes: {}, pods: {}, leases: {}},
		history:  map[string][]change{},
		watchers: map[string][]*watcher{},
		tell:     tell,
		admit:    func(string, runtime.Object) {},
	}
}

func keyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func accessor(object runtime.Object) metav1.Object {
	found, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return found
}

func notFound(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name)
}

func conflict(resource, name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New(why))
}

// get returns a copy.
func (s *store) get(resource, namespace, name string) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.objects[resource][keyOf(namespace, name)]
	if !ok {
		return nil, notFound(resource, name)
	}
	return found.DeepCopyObject(), nil
}

// resources are all that there is something of, by name.
func (s *store) resources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for resource := range s.objects {
		found = append(found, resource)
	}
	sort.Strings(found)
	return found
}

// list returns copies by name, and the version of the list.
func (s *store) list(resource, namespace string) ([]runtime.Object, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key, object := range s.objects[resource] {
		if namespace == "" || accessor(object).GetNamespace() == namespace {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	var found []runtime.Object
	for _, key := range keys {
		found = append(found, s.objects[resource][key].DeepCopyObject())
	}
	return found, strconv.Itoa(s.version)
}

func (s *store) create(resource string, object runtime.Object) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := object.DeepCopyObject()
	s.admit(resource, made)
	is := accessor(made)
	key := keyOf(is.GetNamespace(), is.GetName())
	if _, ok := s.objects[resource][key]; ok {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: resource}, is.GetName())
	}
	if is.GetUID() == "" {
		is.SetUID(types.UID(fmt.Sprintf("%s-%d", is.GetName(), s.version+1)))
	}
	if stamp := is.GetCreationTimestamp(); stamp.IsZero() {
		is.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
	return s.put(resource, watch.Added, nil, made), nil
}

// modify lets a function change the object; it returns the object as it is then. Without a difference nothing is written.
func (s *store) modify(resource, namespace, name string, edit func(runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.objects[resource][keyOf(namespace, name)]
	if !ok {
		return nil, notFound(resource, name)
	}
	is, err := edit(was.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	if is == nil {
		return was.DeepCopyObject(), nil
	}
	if wanted := accessor(is).GetResourceVersion(); wanted != "" && wanted != accessor(was).GetResourceVersion() {
		return nil, conflict(resource, name, "the object has been modified")
	}
	if same(was, is) {
		return was.DeepCopyObject(), nil
	}
	return s.put(resource, watch.Modified, was, is), nil
}

func same(a, b runtime.Object) bool {
	one, _ := json.Marshal(a)
	two, _ := json.Marshal(b)
	return string(one) == string(two)
}

func (s *store) remove(resource, namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.objects[resource][keyOf(namespace, name)]
	if !ok {
		return notFound(resource, name)
	}
	s.take(resource, was)
	return nil
}

func (s *store) take(resource string, was runtime.Object) {
	is := accessor(was)
	delete(s.objects[resource], keyOf(is.GetNamespace(), is.GetName()))
	s.version++
	last := was.DeepCopyObject()
	accessor(last).SetResourceVersion(strconv.Itoa(s.version))
	s.tell(was, nil)
	s.publish(resource, watch.Event{Type: watch.Deleted, Object: last})
}

// deletePod does what the API server does with a DELETE: the first one gives the pod its grace period, a
// further one counts only with a shorter grace, and 0 takes the object away.
func (s *store) deletePod(namespace, name string, asked *int64, uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[pods][keyOf(namespace, name)]
	if !ok {
		return notFound(pods, name)
	}
	was := object.(*v1.Pod)
	if uid != "" && uid != was.UID {
		return conflict(pods, name, "the UID does not match")
	}
	grace := int64(30)
	if was.Spec.TerminationGracePeriodSeconds != nil {
		grace = *was.Spec.TerminationGracePeriodSeconds
	}
	if asked != nil {
		grace = *asked
	}
	if was.Spec.NodeName == "" || was.Status.Phase == v1.PodFailed || was.Status.Phase == v1.PodSucceeded {
		grace = 0
	}
	if grace < 0 {
		grace = 1
	}
	if was.DeletionTimestamp != nil {
		if asked == nil || (grace != 0 && grace >= *was.DeletionGracePeriodSeconds) {
			return nil
		}
	}
	if grace == 0 {
		s.take(pods, was)
		return nil
	}
	is := was.DeepCopy()
	end := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	is.DeletionTimestamp, is.DeletionGracePeriodSeconds = &end, &grace
	s.put(pods, watch.Modified, was, is)
	return nil
}

func (s *store) put(resource string, how watch.EventType, was, is runtime.Object) runtime.Object {
	s.version++
	accessor(is).SetResourceVersion(strconv.Itoa(s.version))
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]runtime.Object{}
	}
	s.objects[resource][keyOf(accessor(is).GetNamespace(), accessor(is).GetName())] = is
	s.tell(was, is)
	s.publish(resource, watch.Event{Type: how, Object: is.DeepCopyObject()})
	return is.DeepCopyObject()
}

func (s *store) publish(resource string, event watch.Event) {
	s.history[resource] = append(s.history[resource], change{s.version, event})
	for _, each := range s.watchers[resource] {
		each.send(event)
	}
}

// forgetHistory drops what no watch can ask for any more: all informers of a process begin at one instant.
func (s *store) forgetHistory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = map[string][]change{}
}

// watch begins after the version that the list had, and tells nothing more when the process of its client has ended. What it tells
// comes in order, each up to so much late.
func (s *store) watch(alive context.Context, resource, after string, lag lag) watch.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	begun := &watcher{alive: alive, events: make(chan watch.Event, 1<<15)}
	if lag.most > 0 {
		begun.late = make(chan lateEvent, 1<<15)
		go begun.tellLate()
	}
	begun.lag = lag
	from, _ := strconv.Atoi(after)
	for _, each := range s.history[resource] {
		if each.version > from {
			begun.send(each.event)
		}
	}
	s.watchers[resource] = append(s.watchers[resource], begun)
	return begun
}

// lag is how late watches tell what happens.
type lag struct {
	most time.Duration
	rng  *rand.Rand
}

type lateEvent struct {
	due   time.Time
	event watch.Event
}

type watcher struct {
	alive  context.Context
	events chan watch.Event
	lag    lag
	late   chan lateEvent
}

func (w *watcher) send(event watch.Event) {
	if w.alive.Err() != nil {
		return
	}
	copied := watch.Event{Type: event.Type, Object: event.Object.DeepCopyObject()}
	if w.late == nil {
		w.events <- copied
		return
	}
	w.late <- lateEvent{time.Now().Add(time.Duration(w.lag.rng.Int63n(int64(w.lag.most)))), copied}
}

func (w *watcher) tellLate() {
	for each := range w.late {
		time.Sleep(time.Until(each.due))
		w.events <- each.event
	}
}

// Stop does nothing: processes are left as they are when they end, as if they were killed.
func (w *watcher) Stop() {}

func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

// patched applies a strategic merge patch; an apply configuration of conditions comes to the same.
func patched(was runtime.Object, patch []byte) (runtime.Object, error) {
	original, err := json.Marshal(was)
	if err != nil {
		return nil, err
	}
	is := reflect.New(reflect.TypeOf(was).Elem()).Interface().(runtime.Object)
	merged, err := strategicpatch.StrategicMergePatch(original, patch, is)
	if err != nil {
		return nil, err
	}
	return is, json.Unmarshal(merged, is)
}
