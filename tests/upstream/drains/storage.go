package main

import (
	"context"
	"math"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
)

// podStorage is upstream's REST storage of pods, with its Eviction API, over the store instead of etcd.
func (w *world) podStorage(written, budgets *pauses) podstorage.PodStorage {
	options := generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{},
		ResourcePrefix: pods,
		Decorator: func(
			*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return storedPods{world: w, pauses: written}, func() {}, nil
		},
	}
	// Releases differ in the last parameters, which only exec and the like need.
	make := reflect.ValueOf(podstorage.NewStorage)
	given := []reflect.Value{reflect.ValueOf(options), {}, {}, reflect.ValueOf(newClientset(w.store, budgets, nil).PolicyV1())}
	for i := range make.Type().NumIn() {
		if i == len(given) {
			given = append(given, reflect.Value{})
		}
		if !given[i].IsValid() {
			given[i] = reflect.Zero(make.Type().In(i))
		}
	}
	made := make.Call(given)
	if err, failed := made[1].Interface().(error); failed {
		panic(err)
	}
	return made[0].Interface().(podstorage.PodStorage)
}

// storedPods is what the storage of pods needs of etcd: reads, and writes that fail if the object was written meanwhile.
type storedPods struct {
	storage.Interface
	world  *world
	pauses *pauses
}

func (s storedPods) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (s storedPods) ReadinessCheck() error { return nil }

func keyParts(key string) (namespace, name string) {
	parts := strings.Split(strings.Trim(key, "/"), "/")
	return parts[len(parts)-2], parts[len(parts)-1]
}

// internal fills an object of the API server's own form with what the store has.
func internal(stored runtime.Object, into runtime.Object) {
	if err := legacyscheme.Scheme.Convert(stored, into, nil); err != nil {
		panic(err)
	}
}

func external(pod runtime.Object) *v1.Pod {
	made := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, made, nil); err != nil {
		panic(err)
	}
	return made
}

func (s storedPods) Get(_ context.Context, key string, options storage.GetOptions, into runtime.Object) error {
	namespace, name := keyParts(key)
	s.pauses.readPause()
	found, err := s.world.store.get(pods, namespace, name)
	if err != nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	internal(found, into)
	return nil
}

func (s storedPods) GuaranteedUpdate(
	_ context.Context, key string, into runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, _ runtime.Object,
) error {
	namespace, name := keyParts(key)
	for {
		found, err := s.world.store.get(pods, namespace, name)
		if err != nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		was := &api.Pod{}
		internal(found, was)
		if err := preconditions.Check(key, was); err != nil {
			return err
		}
		version, _ := storage.APIObjectVersioner{}.ObjectResourceVersion(was)
		is, _, err := update(was, storage.ResponseMeta{ResourceVersion: version})
		if err != nil {
			return err
		}
		s.pauses.wait()
		wanted := external(is)
		wanted.ResourceVersion = accessor(found).GetResourceVersion()
		written, err := s.world.store.modify(pods, namespace, name, func(runtime.Object) (runtime.Object, error) { return wanted, nil })
		if apierrors.IsConflict(err) {
			continue
		}
		if err != nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		internal(written, into)
		return nil
	}
}

func (s storedPods) Delete(
	_ context.Context, key string, into runtime.Object, preconditions *storage.Preconditions, _ storage.ValidateObjectFunc, _ runtime.Object,
	_ storage.DeleteOptions,
) error {
	namespace, name := keyParts(key)
	s.pauses.wait()
	found, err := s.world.store.get(pods, namespace, name)
	if err != nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	internal(found, into)
	if err := preconditions.Check(key, into); err != nil {
		return err
	}
	_ = s.world.store.remove(pods, namespace, name)
	return nil
}

// readPause is how long a read takes.
func (p *pauses) readPause() {
	p.mu.Lock()
	pause := time.Duration(math.Sqrt(p.rng.Float64()) * float64(p.quickest))
	p.mu.Unlock()
	time.Sleep(pause)
}
