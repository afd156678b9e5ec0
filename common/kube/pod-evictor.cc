#include "common/kube/pod-evictor.h"

#include "common/base/error.h"

namespace talos::kube {
namespace {

constexpr unsigned kMostTries = 5;  // of a request that fails in other ways than by a refusal

Resource podResource() {
  return coreResource("pods", "Pod");
}

// Returns true for an error of a server that restarts, or has too much to do.
bool passes(ErrorKind kind) {
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

class PodEvictor {
 public:
  PodEvictor(kj::Timer& timer, KubeClient& client, EvictionOptions options,
             EvictionListener& listener)
      : timer(timer), client(client), options(options), listener(listener) {}

  kj::Promise<void> evict(const LeavingPod& pod) {
    kj::Maybe<kj::Exception> wrong;
    try {
      bool ending = pod.ending || co_await request(pod);
      if (ending) {
        listener.ending(pod);
        co_await awaitGone(pod);
      }
    } catch (...) {
      wrong = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, wrong) {
      listener.failed(pod, messageOf(*e));
    } else {
      listener.gone(pod);
    }
  }

 private:
  kj::Timer& timer;
  KubeClient& client;
  EvictionOptions options;
  EvictionListener& listener;

  // Returns true if the pod no longer exists, and false if the server does not answer.
  kj::Promise<bool> isGone(const LeavingPod& pod) {
    bool gone = false;
    co_await client.get(podResource(), pod.nameSpace, pod.name)
        .then([&](Json found) { gone = textAt(found, {"metadata", "uid"}) != pod.uid; },
              [&](kj::Exception&& e) {
                auto kind = kindOf(e);
                gone = kind == ErrorKind::kNotFound;
                if (!gone && !passes(kind)) kj::throwFatalException(kj::mv(e));
              });
    co_return gone;
  }

  kj::Promise<KubeClient::Eviction> requestOnce(const LeavingPod& pod) {
    using Outcome = KubeClient::Eviction::Outcome;
    if (!options.deletes) {
      co_return co_await client.evict(pod.nameSpace, pod.name, pod.uid, options.grace);
    }
    bool there = co_await client.remove(podResource(), pod.nameSpace, pod.name,
                                        Version{pod.uid, ""}, options.grace);
    co_return KubeClient::Eviction{there ? Outcome::kGoing : Outcome::kGone, kj::String()};
  }

  // Returns false if the pod no longer exists.
  kj::Promise<bool> request(const LeavingPod& pod) {
    using Outcome = KubeClient::Eviction::Outcome;
    listener.requested(pod);
    for (unsigned failures = 0;;) {
      kj::Maybe<KubeClient::Eviction> answer;
      kj::Maybe<kj::Exception> wrong;
      co_await requestOnce(pod).then([&](KubeClient::Eviction got) { answer = kj::mv(got); },
                                     [&](kj::Exception&& e) { wrong = kj::mv(e); });
      KJ_IF_MAYBE (e, wrong) {
        auto kind = kindOf(*e);
        // Conflict of a deletion: another pod has the name.
        bool again = passes(kind) || kind == ErrorKind::kConflict;
        if (!again || ++failures == kMostTries) kj::throwFatalException(kj::mv(*e));
      } else KJ_IF_MAYBE (got, answer) {
        if (got->outcome == Outcome::kGoing) co_return true;
        if (got->outcome == Outcome::kGone) co_return false;
        listener.refused(pod, got->message);
      }
      co_await timer.afterDelay(kEvictionPause);
      if (co_await isGone(pod)) co_return false;
    }
  }

  kj::Promise<void> awaitGone(const LeavingPod& pod) {
    auto begun = timer.now();
    for (;;) {
      if (co_await isGone(pod)) co_return;
      KJ_IF_MAYBE (most, options.goneTimeout) {
        if (timer.now() >= begun + *most) {
          fail(ErrorKind::kDeadlineExceeded,
               kj::str("has not ended within ", *most / kj::SECONDS, " s"));
        }
      }
      co_await timer.afterDelay(kGoneLook);
    }
  }
};

}  // namespace

kj::Promise<void> evictPods(kj::Timer& timer, KubeClient& client,
                            kj::ArrayPtr<const LeavingPod> pods, EvictionOptions options,
                            EvictionListener& listener) {
  PodEvictor evictor(timer, client, options, listener);
  auto leaving = KJ_MAP(pod, pods) {
    return evictor.evict(pod);
  };
  co_await kj::joinPromises(kj::mv(leaving));
}

}  // namespace talos::kube
