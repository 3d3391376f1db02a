package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// newClientset is upstream's own clientset: its requests wait for its limit, and go to the store then. Without a limit none waits.
func newClientset(s *store, pauses *pauses, limit flowcontrol.RateLimiter) kubernetes.Interface {
	made, err := kubernetes.NewForConfig(&rest.Config{Host: "http://upstream", Transport: &endpoint{pauses, s}, QPS: -1, RateLimiter: limit})
	must(err)
	return made
}

// countedLimit counts the requests that wait for it.
type countedLimit struct {
	flowcontrol.RateLimiter
	waiting *atomic.Int64
}

// Accept is what releases up to 1.17 call.
func (l countedLimit) Accept() { _ = l.Wait(context.Background()) }

func (l countedLimit) Wait(ctx context.Context) error {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	return l.RateLimiter.Wait(ctx)
}

// pauses are how long writes of one client take, and when its process ends: what is asked for then is never answered.
type pauses struct {
	alive    context.Context
	quickest time.Duration
	slowest  time.Duration
	mu       sync.Mutex
	rng      *rand.Rand
}

func newPauses(alive context.Context, quickest, slowest time.Duration, seed int64) *pauses {
	return &pauses{alive: alive, quickest: quickest, slowest: slowest, rng: rand.New(rand.NewSource(seed))}
}

// wait lets time pass before a write, as a server does.
func (p *pauses) wait() {
	if p.slowest > p.quickest {
		p.mu.Lock()
		pause := p.quickest + time.Duration(p.rng.Int63n(int64(p.slowest-p.quickest)))
		p.mu.Unlock()
		time.Sleep(pause)
	}
}

// endpoint is the API server for one clientset: HTTP without a network, over the store.
type endpoint struct {
	*pauses
	store *store
}

// asked is what the path of a request names.
type asked struct{ resource, namespace, name, subresource string }

func askedFor(path string) asked {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	var found asked
	if parts[0] == "namespaces" && len(parts) > 2 {
		found.namespace, parts = parts[1], parts[2:]
	}
	for i, into := range []*string{&found.resource, &found.name, &found.subresource} {
		if i < len(parts) {
			*into = parts[i]
		}
	}
	return found
}

func (e *endpoint) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		e.wait()
	}
	if e.alive.Err() != nil {
		select {}
	}
	found, err := e.answer(request, askedFor(request.URL.Path))
	return response(request, found, err), nil
}

func (e *endpoint) answer(request *http.Request, of asked) (any, error) {
	body := bodyOf(request)
	if of.resource == "events" {
		if request.Method == http.MethodPatch {
			body = []byte(`{"kind":"Event","apiVersion":"v1"}`)
		}
		return json.RawMessage(body), nil
	}
	switch request.Method {
	case http.MethodGet:
		if of.name == "" {
			return named(e.store.listObject(of.resource, of.namespace)), nil
		}
		return namedUnless(e.store.get(of.resource, of.namespace, of.name))
	case http.MethodPost:
		wanted := decoded(body)
		accessor(wanted).SetNamespace(of.namespace)
		return namedUnless(e.store.create(of.resource, wanted))
	case http.MethodPatch:
		return namedUnless(e.store.modify(of.resource, of.namespace, of.name, func(was runtime.Object) (runtime.Object, error) {
			is, err := patched(was, body)
			if err == nil && accessor(is).GetUID() != accessor(was).GetUID() {
				err = conflict(of.resource, of.name, "the UID does not match")
			}
			return is, err
		}))
	case http.MethodPut:
		wanted := decoded(body)
		return namedUnless(e.store.modify(of.resource, of.namespace, of.name, func(was runtime.Object) (runtime.Object, error) {
			return updated(was, wanted, of.subresource), nil
		}))
	case http.MethodDelete:
		return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, e.remove(of, body)
	}
	panic(fmt.Sprint(request.Method, " ", request.URL))
}

func (e *endpoint) remove(of asked, body []byte) error {
	if of.resource != pods {
		return e.store.remove(of.resource, of.namespace, of.name)
	}
	options := deleteOptions(body)
	var uid types.UID
	if options.Preconditions != nil && options.Preconditions.UID != nil {
		uid = *options.Preconditions.UID
	}
	return e.store.deletePod(of.namespace, of.name, options.GracePeriodSeconds, uid)
}

func deleteOptions(body []byte) *metav1.DeleteOptions {
	if len(body) == 0 {
		return &metav1.DeleteOptions{}
	}
	return decoded(body).(*metav1.DeleteOptions)
}

func decoded(body []byte) runtime.Object {
	found, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	must(err)
	return found
}

// updated is what the server keeps of a PUT: the status, or all but the status.
func updated(was, wanted runtime.Object, subresource string) runtime.Object {
	old, is := reflect.ValueOf(was).Elem(), reflect.ValueOf(wanted).Elem()
	if !is.FieldByName("Status").IsValid() {
		return wanted
	}
	if subresource == "status" {
		old.FieldByName("Status").Set(is.FieldByName("Status"))
		accessor(was).SetResourceVersion(accessor(wanted).GetResourceVersion())
		return was
	}
	is.FieldByName("Status").Set(old.FieldByName("Status"))
	if !reflect.DeepEqual(old.FieldByName("Spec").Interface(), is.FieldByName("Spec").Interface()) {
		accessor(wanted).SetGeneration(accessor(was).GetGeneration() + 1)
	}
	return wanted
}

// named is an object that says its kind.
func named(object runtime.Object) runtime.Object {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	must(err)
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	return object
}

func namedUnless(object runtime.Object, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return named(object), nil
}

func bodyOf(request *http.Request) []byte {
	if request.Body == nil {
		return nil
	}
	text, err := io.ReadAll(request.Body)
	must(err)
	return text
}

// response is an answer as HTTP.
func response(request *http.Request, found any, err error) *http.Response {
	code, header := http.StatusOK, http.Header{"Content-Type": {"application/json"}}
	if err != nil {
		status := statusOf(err)
		found, code = status, int(status.Code)
		if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
			header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
		}
	} else if status, is := found.(*metav1.Status); is && status.Code != 0 {
		code = int(status.Code)
	}
	text, err := json.Marshal(found)
	must(err)
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Header: header, Body: io.NopCloser(bytes.NewReader(text)), Request: request}
}

func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		panic(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}
