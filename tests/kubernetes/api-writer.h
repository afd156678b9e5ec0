// A client that writes to Kubernetes' API twice a second, as a user's program does, and what it
// finds: how many calls failed, for how long none succeeded, and whether a write that was answered
// is there.
//
// Each call is a new connection from the namespace that it is given, and has two seconds; the next
// one does not wait for it. One that fails is repeated once, half a second later. Numbers go in
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
  // Its object, in namespace default, which has to be there; writers side by side have one each.
  static constexpr const char* kObject = "written";
  static constexpr size_t kKeys = 16;

  ApiWriter(int place, const std::string& kubeconfig, const std::string& object = kObject);
  ~ApiWriter() noexcept;
  KJ_DISALLOW_COPY_AND_MOVE(ApiWriter);

  struct Figures {
    unsigned calls = 0, failed = 0;
    unsigned lost = 0;     // of those that failed: the second try has failed as well
    unsigned refused = 0;  // tries that failed because of a certificate or a token
    double longest = 0;    // seconds between two answers to calls that succeeded
    std::string error;     // of the last call that failed
    // Each try that failed: "08:01:14.25 second try: why".
    std::vector<std::string> failures;
  };
  // Since it was asked last.
  Figures take();
  std::atomic<unsigned> succeeded{0};

  // Fails the test when a write that was answered is not there.
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
  kj::Promise<void> call(kube::DialDependencies deps, uint64_t number);
  kj::Promise<bool> attempt(kube::DialDependencies deps, uint64_t number, bool first);
  void count(uint64_t number, const kj::Exception* failure, bool first);
};

}  // namespace talos
