// The brain's side of a kernel helper, another process that makes kernel calls for the brain.
//
// Calls block as the kernel's do, may be made from any thread, and each has its own socket, so that
// none waits for another. A call fails with ECONNRESET if its process is gone, or if there is no
// helper. It throws DeadlineExceeded, naming the module or parameter, if the kernel does not answer
// in time, as with a driver that hangs; while that call hangs, others for the same name throw at
// once.
#pragma once

#include <kj/io.h>
#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>

#include <mutex>

#include "machined/confined/kernel-helper/kernel-request.h"

namespace talos::helper {

constexpr auto kKernelTimeout = 3 * kj::MINUTES;  // as long as systemd-udevd waits for a driver

class KernelClient {
 public:
  explicit KernelClient(kj::Duration timeout = kKernelTimeout) : timeout(timeout) {}
  KJ_DISALLOW_COPY_AND_MOVE(KernelClient);

  // Sends the next calls to this socket. The helper may accept them later.
  void connect(kj::AutoCloseFd socket);

  // Returns 0 or an errno. The call runs with the priority of the calling thread, if that is lower.
  int insertModule(kj::StringPtr file, kj::StringPtr parameters) const;
  int setParameter(kj::StringPtr path, kj::StringPtr value) const;
  Answer ataStatus(int disk) const;

 private:
  kj::Duration timeout;
  mutable std::mutex mutex;
  kj::AutoCloseFd socket;
  mutable kj::TreeMap<kj::String, kj::AutoCloseFd> hanging;  // unanswered calls, by name

  bool hangs(kj::StringPtr name) const;
  Answer receive(kj::AutoCloseFd own, Call call, kj::StringPtr name) const;
  Answer ask(Call call, kj::StringPtr name, kj::StringPtr value, int disk = -1) const;
};

}  // namespace talos::helper
