// Client of Kubernetes' API: objects as JSON, over HTTP/1.1 and TLS.
//
// Every call has a deadline. Within it the client waits as the server requests (429 and 503 with
// Retry-After: the server has done nothing), and dials again, once, for a reading call whose kept
// connection was closed. No other call is retried: only the caller knows which calls may take
// effect twice. A dropped promise ends the call, but the call may have taken effect; so may a call
// that fails with DeadlineExceeded or Unavailable. The caller must then read before it writes
// again, or write so that a second write has no effect. Answers are bounded (kMostAnswer), or their
// lines. Keeps only connections and the results of discovery.
//
// Errors name the server and the request ("Kubernetes at 10.5.0.1:6443: cannot get nodes/master-1:
// …"); kinds are those of kube-api.h, and Unavailable if the server cannot be reached.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/map.h>
#include <kj/timer.h>

#include "common/kube/kube-access.h"
#include "common/kube/kube-api.h"
#include "common/net/host-dial.h"

namespace talos::kube {

constexpr size_t kMostAnswer = 8u << 20;
constexpr size_t kMostWatchEvent = 4u << 20, kMostTextLine = 64u << 10;
constexpr unsigned kPageSize = 100, kMostListed = 20'000;
constexpr auto kCallDeadline = 30 * kj::SECONDS;
// Time after which the server ends a watch; the caller then starts the next.
constexpr auto kWatchTime = 5 * kj::MINUTES;

// Makes a new connection to the server, TLS included.
using KubeDial = kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()>;
// Returns a function that connects to the server and with the identity of `access`.
KubeDial dialerOf(DialDependencies deps, const KubeAccess& access);

struct ListOptions {
  kj::StringPtr labels = "";  // k8s-app=kube-proxy
  kj::StringPtr fields = "";  // spec.nodeName=master-1
};

// An object as it was read; without a resourceVersion, in any later state.
struct Version {
  kj::StringPtr uid, resourceVersion;
};

enum class Patch { kMerge, kStrategic, kApply };

// Options of a server-side apply. Without `force`, a field that another manager has set to another
// value is a conflict. A dry run changes nothing; its answer is the object as it would be.
struct ApplyOptions {
  bool force = false, dryRun = false;
};

// A stream of events, until the server ends it.
class KubeWatch {
 public:
  KubeWatch(kj::Timer& timer, kj::Own<kj::AsyncInputStream> body);
  KJ_DISALLOW_COPY_AND_MOVE(KubeWatch);
  // Returns nullptr when the watch has ended; the caller continues from the newest version that it
  // received. Fails with Conflict if this version is too old; the caller must then list again.
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
  // `random` in [0,1) spreads retries.
  KubeClient(kj::Timer& timer, kj::Function<double()> random, KubeDial dial, KubeAccess access);
  ~KubeClient() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(KubeClient);

  kj::StringPtr name() const;    // "Kubernetes at 10.5.0.1:6443"
  kj::StringPtr server() const;  // "10.5.0.1:6443"

  kj::Promise<Json> get(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name);
  struct Listed {
    kj::Vector<Json> items;
    kj::String version;  // version to watch from
  };
  // Lists all pages, at most kMostListed objects; starts again, once, if the server has lost the
  // position of the list.
  kj::Promise<Listed> list(const Resource& resource, kj::StringPtr nameSpace = "",
                           const ListOptions& options = {});
  // Does the same, but passes the objects one by one and keeps none; if it fails, objects that were
  // passed remain valid. Returns the version.
  kj::Promise<kj::String> visit(const Resource& resource, kj::StringPtr nameSpace,
                                const ListOptions& options, kj::Function<void(const Json&)> take);
  // Returns one page of a list as the server gives it, with at most so many objects. `next`: the
  // end of the page before (metadata.continue); empty for the first page.
  kj::Promise<Json> page(const Resource& resource, kj::StringPtr nameSpace,
                         const ListOptions& options, unsigned size, kj::StringPtr next);
  // Returns nullptr if an object of this name exists already.
  kj::Promise<kj::Maybe<Json>> create(const Resource& resource, kj::StringPtr nameSpace,
                                      const Json& object, kj::StringPtr fieldManager);
  // For kApply, `object` is the whole intent of the field manager (server-side apply, forced).
  kj::Promise<Json> patch(Patch how, const Resource& resource, kj::StringPtr nameSpace,
                          kj::StringPtr name, const Json& object, kj::StringPtr fieldManager,
                          kj::StringPtr subresource = "");
  // Does the same with these options. Returns the object afterwards, or the conflicts, in which
  // case nothing has changed.
  kj::Promise<kj::OneOf<Json, kj::Vector<FieldConflict>>> apply(
      const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name, const Json& object,
      kj::StringPtr fieldManager, ApplyOptions options);
  // Returns false if the object did not exist. Fails with Conflict if the object is not `only`, or
  // has changed. `grace`: grace period of a pod; nullptr for its own.
  kj::Promise<bool> remove(const Resource& resource, kj::StringPtr nameSpace, kj::StringPtr name,
                           kj::Maybe<Version> only = nullptr,
                           kj::Maybe<kj::Duration> grace = nullptr);
  // Outcome of an eviction.
  struct Eviction {
    enum class Outcome {
      kGoing,
      kGone,
      // Refused for now: by a PodDisruptionBudget, by a server that has too much to do, or because
      // another pod has the name.
      kRefused
    };
    Outcome outcome;
    kj::String message;  // the cause of a refusal
  };
  // Evicts the pod of this uid, with `grace` or its own grace period: by its subresource eviction,
  // in the version of the policy API that the server has.
  kj::Promise<Eviction> evict(kj::StringPtr nameSpace, kj::StringPtr name, kj::StringPtr uid,
                              kj::Maybe<kj::Duration> grace);
  kj::Promise<kj::Own<KubeWatch>> watch(const Resource& resource, kj::StringPtr nameSpace,
                                        const ListOptions& options, kj::StringPtr fromVersion);

  // Returns the resource of a kind. Asks the server once for each group and version, and again for
  // a kind that did not exist. Fails with NotFound if the server does not know the kind.
  kj::Promise<Resource> resource(kj::StringPtr apiVersion, kj::StringPtr kind);

  // Gets a path that is not a resource: the kubelet's "/pods".
  kj::Promise<Json> getJson(kj::StringPtr path);
  // Passes the lines of a text of any length ("/metrics") as they arrive, and keeps none. If the
  // call fails, lines that were passed remain valid; if it dials again, they are passed again.
  kj::Promise<void> visitLines(kj::StringPtr path, kj::Function<void(kj::StringPtr)> take);
  // Does the same where only the status matters: "/readyz". The error names the checks that failed.
  kj::Promise<void> check(kj::StringPtr path);

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::kube
