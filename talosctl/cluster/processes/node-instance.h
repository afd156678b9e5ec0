// One run of a node, from power on to power off: a virtual machine or a container. It runs from its
// construction on, and nothing of it is left when it has ended or when the object is destroyed.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

namespace talos::cluster {

// The end of a run.
struct End {
  enum class Kind {
    kReboot,  // it must be started again
    kOff,     // it has switched itself off
    kFailed,  // it was killed, or crashed
  };
  Kind kind;
  kj::String how;  // "killed by signal 9"
};

class Instance {
 public:
  virtual ~Instance() noexcept(false) = default;
  virtual int pid() const = 0;  // of the process on this host that the run depends on
  // Once.
  virtual kj::Promise<End> onEnd() = 0;
  // Requests an orderly shutdown. Resolves when the request has arrived; the run ends later.
  virtual kj::Promise<void> shutDown() = 0;
  // Cuts its power; what it has written stays.
  virtual void kill() = 0;
  // Stops all of its processes until it is resumed; its clock continues.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

}  // namespace talos::cluster
