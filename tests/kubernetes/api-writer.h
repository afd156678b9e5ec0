// A client that writes to Kubernetes' API twice a second, as a user's program does. It reports how
// many calls failed, the longest time in which none succeeded, and whether each acknowledged write
// exists.
//
// Each call uses a new connection from the network namespace `place`, and has two seconds; the next
// call does not wait for it. A failed call is repeated once, half a second later. Numbers go in
// turn to the keys of one ConfigMap, so that writes to one key are so far apart that they cannot
// overtake each other.
#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/kube/kube-client.h"
#include "tests/kubernetes/kube-cluster.h"
#include "tests/vip/places.h"

namespace talos {

class ApiWriter {
 public:
  // Its ConfigMap, in namespace default, which must exist; writers that run side by side have one
  // each.
  static constexpr const char* kObject = "written";
  static constexpr size_t kKeys = 16;

  ApiWriter(int place, const std::string& kubeconfig, const std::string& object = kObject);
  ~ApiWriter() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(ApiWriter);

  struct Figures {
    unsigned calls = 0, failed = 0;
    unsigned lost = 0;     // failed calls whose second try failed as well
    unsigned refused = 0;  // failed because of a certificate or a token
    double longest = 0;    // seconds between two answers to calls that succeeded
    std::string error;     // of the last call that failed
    // Each failed try: "08:01:14.25 second try: why".
    std::vector<std::string> failures;
  };
  // Returns the figures since the previous call of take().
  Figures take();
  std::atomic<unsigned> succeeded{0};

  // Fails the test when an acknowledged write is missing.
  void checkWritten(const KubeCluster& cluster);

 private:
  kj::AutoCloseFd place;
  std::string kubeconfig, object;
  std::mutex mutex;
  Figures figures;
  std::array<uint64_t, kKeys> written{};  // the latest number of each key whose write was answered
  kj::TimePoint last;
  std::atomic<bool> over{false};
  std::thread thread;

  void run();
  kj::Promise<void> call(DialDependencies deps, uint64_t number);
  kj::Promise<bool> attempt(DialDependencies deps, uint64_t number, bool first);
  void count(uint64_t number, const kj::Exception* failure, bool first);
};

}  // namespace talos
