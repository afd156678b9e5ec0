// The client of Kubernetes' API: objects as JSON, over HTTP/1.1 and TLS.
//
// Every call has a deadline, within which it waits as the server requests (429 and 503 with
// Retry-After: the server has done nothing) and dials once more for a reading call whose kept
// connection was closed. Nothing else is repeated: only the caller knows what may be done twice. A
// promise that is dropped ends the call, but what it had asked for may have been done; so it is
// after DeadlineExceeded and Unavailable: read before writing again, or write so that twice is
// once. Answers are bounded (kMostAnswer), or their lines. Nothing is kept but connections and what
// discovery said.
//
// Errors name the server and what was asked for ("Kubernetes at 10.5.0.1:6443: cannot get
// nodes/master-1: …"); kinds are those of kube-api.h, and Unavailable when it is not reached.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "common/kube/host-dial.h"
#include "common/kube/kube-access.h"
#include "common/kube/kube-api.h"

namespace talos::kube {

constexpr size_t kMostAnswer = 8u << 20;
constexpr size_t kMostWatchEvent = 4u << 20, kMostTextLine = 64u << 10;
constexpr unsigned kPageSize = 100, kMostListed = 20'000;
constexpr auto kCallDeadline = 30 * kj::SECONDS;
// The server ends a watch then, and the caller starts the next.
constexpr auto kWatchTime = 5 * kj::MINUTES;

// A new connection to the server, TLS included.
using KubeDial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()>;
// To the server and with the identity of `access`.
KubeDial dialerOf(DialDependencies deps, const KubeAccess& access);

struct ListOptions {
  kj::StringPtr labels = "";  // k8s-app=kube-proxy
  kj::StringPtr fields = "";  // spec.nodeName=master-1
};

// An object as it was read; without a resourceVersion, whatever has become of it.
struct Version {
  kj::StringPtr uid, resourceVersion;
};

enum class Patch { kMerge, kStrategic, kApply };

// Of a server-side apply. Without `force` a field that another manager has set to another value is
// a conflict. A dry run changes nothing; its answer is the object as it would be.
struct ApplyOptions {
  bool force = false, dryRun = false;
};

// A stream of events, until the server ends it.
class KubeWatch {
 public:
  KubeWatch(kj::Timer& timer, kj::Own<kj::AsyncInputStream> body);
  KJ_DISALLOW_COPY_AND_MOVE(KubeWatch);
  // None: ended; continue from the newest version that was received. Conflict: that is too old;
  // list again.
  kj::Promise<kj::Maybe<WatchEvent>> next();

 private:
  kj::Timer& timer;
  kj::TimePoint end;
  kj::Own<kj::AsyncInputStream> body;
  kj::Array<char> piece = kj::heapArray<char>(16384);
  LineAssembler assembler{kMostWatchEvent, "an event"};
  kj::Vector<kj::String> lines;
  size_t taken = 0;
};

class KubeClient {
 public:
  // `random` in [0,1) spreads what is tried again.
  KubeClient(kj::Timer& timer, kj::Function<double()> random, KubeDial dial, KubeAccess access);
  ~KubeClient() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(KubeClient);

  kj::StringPtr name() const;    // "Kubernetes at 10.5.0.1:6443"
  kj::StringPtr server() const;  // "10.5.0.1:6443"

  kj::Promise<Json> get(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name);
  struct Listed {
    kj::Vector<Json> items;
    kj::String version;  // to watch from
  };
  // All pages, at most kMostListed objects; starts again, once, when the server has forgotten where
  // it was.
  kj::Promise<Listed> list(const Resource& resource, kj::StringPtr nameSpace = "",
                           const ListOptions& options = {});
  // The same one by one, none of them kept; what was given stays given when it fails. The version.
  kj::Promise<kj::String> visit(const Resource& resource, kj::StringPtr nameSpace,
                                const ListOptions& options, kj::Function<void(const Json&)> take);
  // One page of a list as the server gives it, of at most so many objects. `next`: where the page
  // before ended (metadata.continue); empty: the first one.
  kj::Promise<Json> page(const Resource& resource, kj::StringPtr nameSpace,
                         const ListOptions& options, unsigned size, kj::StringPtr next);
  // None: an object of this name exists already.
  kj::Promise<kj::Maybe<Json>> create(const Resource& resource, kj::StringPtr nameSpace,
                                      const Json& object, kj::StringPtr fieldManager);
  // kApply: `object` is the whole intent of the field manager (server-side apply, forced).
  kj::Promise<Json> patch(Patch how, const Resource& resource, kj::StringPtr nameSpace,
                          kj::StringPtr name, const Json& object, kj::StringPtr fieldManager,
                          kj::StringPtr subresource = "");
  // The same with these options: the object afterwards, or the conflicts, with which nothing has
  // changed.
  kj::Promise<kj::OneOf<Json, kj::Vector<FieldConflict>>> apply(
      const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name, const Json& object,
      kj::StringPtr fieldManager, ApplyOptions options);
  // False: it did not exist. `only`: Conflict when the object is another one, or has changed.
  // `grace`: of a pod; none: its own.
  kj::Promise<bool> remove(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name,
                           kj::Maybe<Version> only = nullptr,
                           kj::Maybe<kj::Duration> grace = nullptr);
  // The outcome of asking a pod to leave its node.
  struct Eviction {
    enum class Outcome {
      kGoing,
      kGone,
      // For now: by a PodDisruptionBudget, by a server that has too much to do, or because another
      // pod has its name.
      kRefused
    };
    Outcome outcome;
    kj::String message;  // why it was refused
  };
  // Asks the pod of this uid to end within `grace`, or its own: its subresource eviction, in the
  // version of the policy API that the server has.
  kj::Promise<Eviction> evict(kj::StringPtr nameSpace, kj::StringPtr name, kj::StringPtr uid,
                              kj::Maybe<kj::Duration> grace);
  kj::Promise<kj::Own<KubeWatch>> watch(const Resource& resource, kj::StringPtr nameSpace,
                                        const ListOptions& options, kj::StringPtr fromVersion);

  // Where objects of this kind are; asked of the server once for each group and version, and again
  // for a kind that was not there. NotFound when the server does not know it.
  kj::Promise<Resource> resource(kj::StringPtr apiVersion, kj::StringPtr kind);

  // Of a path that is no resource: the kubelet's "/pods".
  kj::Promise<Json> getJson(kj::StringPtr path);
  // The lines of a text of any length, "/metrics", as they arrive; none of them is kept. Those that
  // were given stay given when it fails, and are given again when it dials once more.
  kj::Promise<void> visitLines(kj::StringPtr path, kj::Function<void(kj::StringPtr)> take);
  // The same where only the status counts: "/readyz". The error names the checks that failed.
  kj::Promise<void> check(kj::StringPtr path);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::kube
